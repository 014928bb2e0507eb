//! The networks of the benchmark `networks`, written with the layers of candle-nn: SmolLM2-135M, its head with a
//! cross-entropy, ResNet-50. The Python peer makes the weights. Reads the name of a measurement, runs it once, and prints
//! its wall-clock and processor seconds. Argument: the number of samples of a batch.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::io::{BufRead, Write};
use std::time::Instant;

use candle_core::{D, Device, Result, Tensor};
use candle_nn::{BatchNorm, ModuleT, loss, ops, rotary_emb};
use rustix::time::{ClockId, clock_gettime};

const FOLDER: &str = "target/bench-data/networks";
const LENGTH: usize = 128;
const SIDE: usize = 224;
const VOCABULARY: usize = 49_152;

type Weights = HashMap<String, Tensor>;

fn read(name: &str) -> Result<Weights> {
    candle_core::safetensors::load(format!("{FOLDER}/{name}/model.safetensors"), &Device::Cpu)
}

struct Llama {
    weights: Weights,
    cos: Tensor,
    sin: Tensor,
    mask: Tensor,
}

impl Llama {
    fn new() -> Result<Llama> {
        let angle = |i: usize| (i / 32) as f64 * 100_000f64.powf(-((i % 32) as f64) / 32.0);
        let table = |f: fn(f64) -> f64| {
            let values: Vec<f32> = (0..LENGTH * 32).map(|i| f(angle(i)) as f32).collect();
            Tensor::from_vec(values, (LENGTH, 32), &Device::Cpu)
        };
        let hidden = |i: usize| if i % LENGTH > i / LENGTH { f32::NEG_INFINITY } else { 0.0 };
        let mask: Vec<f32> = (0..LENGTH * LENGTH).map(hidden).collect();
        Ok(Llama {
            weights: read("smollm2")?,
            cos: table(f64::cos)?,
            sin: table(f64::sin)?,
            mask: Tensor::from_vec(mask, (LENGTH, LENGTH), &Device::Cpu)?,
        })
    }

    fn weight(&self, name: &str) -> &Tensor {
        &self.weights[&format!("model.{name}.weight")]
    }

    /// Rows times weights, with the samples of a batch one below the other.
    fn linear(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        let (samples, length, width) = x.dims3()?;
        let out = x.reshape((samples * length, width))?.matmul(&self.weight(name).t()?)?;
        out.reshape((samples, length, ()))
    }

    fn attention(&self, x: &Tensor, layer: usize) -> Result<Tensor> {
        let (samples, length, _) = x.dims3()?;
        let heads = |name: &str, count: usize| {
            let rows = self.linear(x, &format!("layers.{layer}.self_attn.{name}"))?;
            rows.reshape((samples, length, count, 64))?.transpose(1, 2)?.contiguous()
        };
        let q = rotary_emb::rope(&heads("q_proj", 9)?, &self.cos, &self.sin)?;
        let k = rotary_emb::rope(&heads("k_proj", 3)?, &self.cos, &self.sin)?;
        let (k, v) = (repeat(&k)?, repeat(&heads("v_proj", 3)?)?);
        let scores = (q.matmul(&k.t()?)? * 0.125)?.broadcast_add(&self.mask)?;
        let z = ops::softmax_last_dim(&scores)?.matmul(&v)?;
        let z = z.transpose(1, 2)?.reshape((samples, length, 576))?;
        self.linear(&z, &format!("layers.{layer}.self_attn.o_proj"))
    }

    fn norm(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        ops::rms_norm(x, self.weight(name), 1e-5)
    }

    fn run(&self, tokens: &Tensor) -> Result<Tensor> {
        let (samples, length) = tokens.dims2()?;
        let x = self.weight("embed_tokens").index_select(&tokens.flatten_all()?, 0)?;
        let mut x = x.reshape((samples, length, 576))?;
        for layer in 0..30 {
            let normed = self.norm(&x, &format!("layers.{layer}.input_layernorm"))?;
            x = (x + self.attention(&normed, layer)?)?;
            let normed = self.norm(&x, &format!("layers.{layer}.post_attention_layernorm"))?;
            let part = |name: &str, x: &Tensor| self.linear(x, &format!("layers.{layer}.mlp.{name}"));
            let hidden = (ops::silu(&part("gate_proj", &normed)?)? * part("up_proj", &normed)?)?;
            x = (x + part("down_proj", &hidden)?)?;
        }
        self.norm(&x, "norm")
    }
}

/// Every key or value head three times, one after the other.
fn repeat(x: &Tensor) -> Result<Tensor> {
    let (samples, heads, length, dim) = x.dims4()?;
    let x = x.unsqueeze(2)?.expand((samples, heads, 3, length, dim))?;
    x.reshape((samples, 3 * heads, length, dim))
}

struct ResNet(Weights);

impl ResNet {
    fn conv(&self, x: &Tensor, conv: &str, norm: &str, stride: usize) -> Result<Tensor> {
        let weight = &self.0[&format!("{conv}.weight")];
        let (to, _, size, _) = weight.dims4()?;
        let part = |name: &str| self.0[&format!("{norm}.{name}")].clone();
        let norm = BatchNorm::new(to, part("running_mean"), part("running_var"), part("weight"), part("bias"), 1e-5)?;
        norm.forward_t(&x.conv2d(weight, size / 2, stride, 1, 1)?, false)
    }

    fn run(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.conv(x, "conv1", "bn1", 2)?.relu()?;
        let mut x = x.pad_with_zeros(D::Minus1, 1, 1)?.pad_with_zeros(D::Minus2, 1, 1)?.max_pool2d_with_stride(3, 2)?;
        for (group, blocks) in [3, 4, 6, 3].into_iter().enumerate() {
            for block in 0..blocks {
                let path = format!("layer{}.{block}", group + 1);
                let stride = if group > 0 && block == 0 { 2 } else { 1 };
                let part = |x: &Tensor, index: usize, stride: usize| {
                    self.conv(x, &format!("{path}.conv{index}"), &format!("{path}.bn{index}"), stride)
                };
                let y = part(&part(&x, 1, 1)?.relu()?, 2, stride)?.relu()?;
                let y = part(&y, 3, 1)?;
                if block == 0 {
                    x = self.conv(&x, &format!("{path}.downsample.0"), &format!("{path}.downsample.1"), stride)?;
                }
                x = (y + x)?.relu()?;
            }
        }
        let pooled = x.mean(D::Minus1)?.mean(D::Minus1)?;
        pooled.matmul(&self.0["fc.weight"].t()?)?.broadcast_add(&self.0["fc.bias"])
    }
}

type Measure = Box<dyn Fn() -> Result<Tensor>>;

fn make(name: &str, samples: usize) -> Result<Measure> {
    let tokens: Vec<u32> = (0..samples * LENGTH).map(|i| (i * 7919 % VOCABULARY) as u32).collect();
    let mut targets = tokens.clone();
    targets.rotate_left(1);
    let tokens = Tensor::from_vec(tokens, (samples, LENGTH), &Device::Cpu)?;
    match name {
        "llama" => {
            let llama = Llama::new()?;
            Ok(Box::new(move || llama.run(&tokens)))
        }
        "head" => {
            let llama = Llama::new()?;
            let rows = llama.run(&tokens)?.reshape((samples * LENGTH, 576))?;
            let targets = Tensor::from_vec(targets, samples * LENGTH, &Device::Cpu)?;
            Ok(Box::new(move || loss::cross_entropy(&rows.matmul(&llama.weight("embed_tokens").t()?)?, &targets)))
        }
        _ => {
            let resnet = ResNet(read("resnet")?);
            let value = |i: usize| ((i * 7919) % 1013) as f32 / 317.0 - 1.5;
            let values: Vec<f32> = (0..samples * SIDE * SIDE * 3).map(value).collect();
            let images = Tensor::from_vec(values, (samples, SIDE, SIDE, 3), &Device::Cpu)?;
            let images = images.permute((0, 3, 1, 2))?.contiguous()?;
            Ok(Box::new(move || resnet.run(&images)))
        }
    }
}

/// Processor seconds used by this process.
fn processor_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let samples: usize = std::env::args().nth(1).ok_or("the number of samples is missing")?.parse()?;
    let mut made: BTreeMap<String, Measure> = BTreeMap::new();
    for name in std::io::stdin().lock().lines() {
        let name = name?;
        if !made.contains_key(&name) {
            let run = make(&name, samples)?;
            let values = run()?.flatten_all()?;
            // For people who want to compare it with the other programs.
            eprintln!("candle {name}: root mean square {}", values.sqr()?.mean_all()?.sqrt()?);
            made.insert(name.clone(), run);
        }
        let (began, before) = (Instant::now(), processor_seconds());
        std::hint::black_box(made[&name]()?);
        println!("{} {}", began.elapsed().as_secs_f64(), processor_seconds() - before);
        std::io::stdout().flush()?;
    }
    Ok(())
}
