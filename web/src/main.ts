import { mount } from 'svelte';
import './style.css';
import App from './App.svelte';
import { forgetToken } from './lib/route.svelte';

forgetToken();
mount(App, { target: document.getElementById('app')! });
