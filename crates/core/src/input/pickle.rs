//! A reader of Python pickles that executes nothing.
//!
//! A pickle is a program for a small stack machine. This reader accepts a closed list of instructions and of names, and
//! builds a tree; a call becomes a node of the tree and is never made. Everything else is refused, and the error names it.

use std::collections::BTreeMap;
use std::ops::Range;

use super::pickle_names::permitted;
use crate::context::{Budget, Reservation};
use crate::error::{InputError, Result};

/// Memory per instruction of a pickle: a node and the references to it.
const STEP_BYTES: u64 = 96;

/// Instructions whose memory is reserved at a time.
const STEPS: u64 = 1 << 12;

/// The index of a node in its tree.
pub(super) type Id = usize;

/// A node of the tree.
#[derive(Debug, PartialEq)]
pub(super) enum Node<'a> {
    /// A value that no tensor depends on: `None`.
    Inert,
    Bool(bool),
    Int(i64),
    /// An integer of more than 8 bytes, in two's complement.
    Long(&'a [u8]),
    Float(f64),
    /// Text, and where it begins.
    Text(&'a str, usize),
    /// Bytes, or the text of Python 2: where they are.
    Bytes(Range<usize>),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// One of the permitted names, without its module.
    Name(&'static str),
    /// A call that is not made: the name, the arguments, and the state that is set afterwards.
    Call(&'static str, Id, Option<Id>),
    /// An object that is not created: its class and its attributes.
    Object(&'static str, Option<Id>),
    /// A reference to data outside of the pickle.
    Outside(Id),
}

/// The content of a pickle.
#[derive(Debug)]
pub(super) struct Tree<'a> {
    bytes: &'a [u8],
    nodes: Vec<Node<'a>>,
    /// The outermost node.
    pub root: Id,
    /// The first byte after the pickle.
    pub end: usize,
    _memory: Reservation,
}

impl<'a> Tree<'a> {
    /// A node. Nodes refer to nodes of the same tree only.
    pub fn node(&self, id: Id) -> &Node<'a> {
        self.nodes.get(id).unwrap_or(&Node::Inert)
    }

    /// The text of a node; Python 2 wrote text as bytes.
    pub fn text(&self, id: Id) -> Option<&'a str> {
        match self.node(id) {
            Node::Text(text, _) => Some(text),
            Node::Bytes(range) => std::str::from_utf8(self.bytes.get(range.clone())?).ok(),
            _ => None,
        }
    }

    /// The bytes of a text or of bytes.
    pub fn range(&self, id: Id) -> Option<Range<usize>> {
        match self.node(id) {
            Node::Bytes(range) => Some(range.clone()),
            Node::Text(text, start) => Some(*start..start + text.len()),
            _ => None,
        }
    }

    /// Every node.
    pub fn ids(&self) -> Range<Id> {
        0..self.nodes.len()
    }

    /// Reads a pickle of protocol 2 to 5 that begins at a byte. Memory is reserved while the tree grows.
    pub fn read(bytes: &'a [u8], start: usize, budget: &Budget) -> Result<Tree<'a>> {
        let mut memory = budget.reserve(0, DESCRIPTION)?;
        let mut machine = Machine {
            bytes,
            offset: start,
            nodes: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: BTreeMap::new(),
        };
        for step in 0.. {
            if step % STEPS == 0 {
                memory.resize((step + STEPS) * STEP_BYTES, DESCRIPTION)?;
            }
            let start = machine.offset;
            match machine.step() {
                Ok(None) => {}
                Ok(Some(root)) => {
                    let Machine { nodes, offset, .. } = machine;
                    return Ok(Tree { bytes, nodes, root, end: offset, _memory: memory });
                }
                Err(error) => return Err(error.at(format!("byte {start} of the pickle")).into()),
            }
        }
        Err(damaged("the pickle has no end").into())
    }
}

/// The purpose of the memory.
const DESCRIPTION: &str = "the description of the tensors";

struct Machine<'a> {
    bytes: &'a [u8],
    offset: usize,
    nodes: Vec<Node<'a>>,
    stack: Vec<Id>,
    /// Height of the stack at each mark.
    marks: Vec<usize>,
    memo: BTreeMap<u64, Id>,
}

/// The result of a step of the machine.
type Step<T> = std::result::Result<T, Box<InputError>>;

impl<'a> Machine<'a> {
    /// Executes one instruction; returns the outermost node at the end. The opcodes are those of Python's `pickletools`.
    fn step(&mut self) -> Step<Option<Id>> {
        match self.take(1)?[0] {
            0x80 => match self.take(1)?[0] {
                2..=5 => Ok(()),
                other => Err(InputError::new("unsupported pickle protocol")
                    .expected("2 to 5")
                    .found(other)
                    .advice("save it again with torch.save")
                    .into()),
            },
            0x95 => self.take(8).map(|_| ()),
            b'.' => return self.pop().map(Some),

            b'N' => self.push(Node::Inert),
            0x88 => self.push(Node::Bool(true)),
            0x89 => self.push(Node::Bool(false)),
            b'K' => self.push_number(1),
            b'M' => self.push_number(2),
            b'J' => {
                let value = self.number(4)? as u32 as i32;
                self.push(Node::Int(value.into()))
            }
            0x8a => {
                let length = self.number(1)?;
                let digits = self.take(length)?;
                self.push(integer(digits))
            }
            b'G' => {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(self.take(8)?);
                self.push(Node::Float(f64::from_be_bytes(bytes)))
            }
            b'X' => self.push_text(4),
            0x8c => self.push_text(1),
            0x8d => self.push_text(8),
            b'U' => self.push_bytes(1),
            b'T' => self.push_bytes(4),
            b'C' => self.push_bytes(1),
            b'B' => self.push_bytes(4),
            0x8e | 0x96 => self.push_bytes(8),

            b'(' => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            b')' => self.push(Node::Tuple(Vec::new())),
            0x85 => self.push_tuple(1),
            0x86 => self.push_tuple(2),
            0x87 => self.push_tuple(3),
            b't' => {
                let items = self.pop_to_mark()?;
                self.push(Node::Tuple(items))
            }
            b']' => self.push(Node::List(Vec::new())),
            b'}' => self.push(Node::Dict(Vec::new())),
            b'a' => {
                let item = self.pop()?;
                self.extend_list(vec![item])
            }
            b'e' => {
                let items = self.pop_to_mark()?;
                self.extend_list(items)
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.extend_dict(vec![key, value])
            }
            b'u' => {
                let items = self.pop_to_mark()?;
                self.extend_dict(items)
            }

            b'q' => self.remember(1),
            b'r' => self.remember(4),
            0x94 => {
                let top = self.top()?;
                self.memo.insert(self.memo.len() as u64, top);
                Ok(())
            }
            b'h' => self.recall(1),
            b'j' => self.recall(4),
            b'0' => self.pop().map(|_| ()),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
                Ok(())
            }

            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.push_name(module, name)
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                match (&self.nodes[module], &self.nodes[name]) {
                    (&Node::Text(module, _), &Node::Text(name, _)) => self.push_name(module, name),
                    _ => Err(damaged("a name in the pickle is not text").into()),
                }
            }
            b'Q' => {
                let id = self.pop()?;
                self.push(Node::Outside(id))
            }
            b'R' => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                match self.nodes[function] {
                    Node::Name("OrderedDict") => {
                        let entries = self.take_entries(arguments);
                        self.push(Node::Dict(entries))
                    }
                    Node::Name(name) => self.push(Node::Call(name, arguments, None)),
                    _ => Err(damaged("the pickle calls something that has no name").into()),
                }
            }
            0x81 => {
                let (_, class) = (self.pop()?, self.pop()?);
                match self.nodes[class] {
                    Node::Name(class) => self.push(Node::Object(class, None)),
                    _ => Err(damaged("the pickle creates an object of a class that has no name").into()),
                }
            }
            // Sets the attributes of an object or an array; those of dictionaries do not matter.
            b'b' => {
                let (value, top) = (self.pop()?, self.top()?);
                if let Node::Object(_, state) | Node::Call(_, _, state) = &mut self.nodes[top] {
                    *state = Some(value);
                }
                Ok(())
            }
            other => Err(InputError::new("the pickle contains an instruction that is not on the list")
                .expected("the instructions of plain dictionaries, lists, numbers and tensors")
                .found(format!("0x{other:02x} \"{}\"", other.escape_ascii()))
                .advice("only state dictionaries are read; save model.state_dict(), or use safetensors")
                .into()),
        }?;
        Ok(None)
    }

    fn take(&mut self, count: usize) -> Step<&'a [u8]> {
        let taken = self.offset.checked_add(count).and_then(|end| self.bytes.get(self.offset..end));
        let taken = taken.ok_or_else(|| damaged("the pickle ends too early"))?;
        self.offset += count;
        Ok(taken)
    }

    /// An unsigned number of `size` bytes.
    fn number(&mut self, size: usize) -> Step<usize> {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(self.take(size)?);
        usize::try_from(u64::from_le_bytes(bytes)).map_err(|_| damaged("a length in the pickle is too large").into())
    }

    /// Text up to the end of the line.
    fn line(&mut self) -> Step<&'a str> {
        let rest = &self.bytes[self.offset..];
        let length = rest.iter().take(1000).position(|&byte| byte == b'\n');
        let length = length.ok_or_else(|| damaged("a name in the pickle has no end"))?;
        self.offset += length + 1;
        std::str::from_utf8(&rest[..length]).map_err(|_| damaged("a name in the pickle is not text").into())
    }

    fn push(&mut self, node: Node<'a>) -> Step<()> {
        self.stack.push(self.nodes.len());
        self.nodes.push(node);
        Ok(())
    }

    fn push_number(&mut self, size: usize) -> Step<()> {
        let value = self.number(size)?;
        self.push(Node::Int(value as i64))
    }

    fn push_text(&mut self, size: usize) -> Step<()> {
        let length = self.number(size)?;
        let start = self.offset;
        let text = std::str::from_utf8(self.take(length)?);
        self.push(Node::Text(text.map_err(|_| damaged("a string in the pickle is not UTF-8"))?, start))
    }

    fn push_bytes(&mut self, size: usize) -> Step<()> {
        let length = self.number(size)?;
        let start = self.offset;
        self.take(length)?;
        self.push(Node::Bytes(start..self.offset))
    }

    fn push_tuple(&mut self, count: usize) -> Step<()> {
        let floor = self.floor();
        let start = self.stack.len().checked_sub(count).filter(|&start| start >= floor).ok_or_else(empty_stack)?;
        let items = self.stack.split_off(start);
        self.push(Node::Tuple(items))
    }

    fn push_name(&mut self, module: &str, name: &str) -> Step<()> {
        match permitted(module, name) {
            Some(known) => self.push(Node::Name(known)),
            None => Err(InputError::new("the pickle contains a name that is not on the list")
                .expected("tensors and storages of torch, arrays of numpy, dictionaries")
                .found(format!("{}.{}", module.escape_debug(), name.escape_debug()))
                .advice("it could execute code; save model.state_dict(), or use safetensors")
                .into()),
        }
    }

    /// The entries of an ordered dictionary: Python 2 passes them as a list of pairs; Python 3 passes nothing and sets them
    /// afterwards. The list is emptied, because a pickle could pass the same one any number of times.
    fn take_entries(&mut self, arguments: Id) -> Vec<(Id, Id)> {
        let Node::Tuple(arguments) = &self.nodes[arguments] else { return Vec::new() };
        let Some(&list) = arguments.first() else { return Vec::new() };
        let Node::List(list) = &mut self.nodes[list] else { return Vec::new() };
        let pairs = std::mem::take(list);
        let pair = |&id: &Id| match &self.nodes[id] {
            Node::Tuple(pair) | Node::List(pair) => pair.first_chunk().map(|&[key, value]| (key, value)),
            _ => None,
        };
        pairs.iter().filter_map(pair).collect()
    }

    /// The lowest index of the stack that may be popped: that of the last mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Step<Id> {
        if self.stack.len() <= self.floor() {
            return Err(empty_stack());
        }
        self.stack.pop().ok_or_else(empty_stack)
    }

    fn top(&self) -> Step<Id> {
        self.stack.last().copied().filter(|_| self.stack.len() > self.floor()).ok_or_else(empty_stack)
    }

    fn pop_to_mark(&mut self) -> Step<Vec<Id>> {
        let mark = self.marks.pop().ok_or_else(empty_stack)?;
        Ok(self.stack.split_off(mark))
    }

    fn extend_list(&mut self, items: Vec<Id>) -> Step<()> {
        let top = self.top()?;
        match &mut self.nodes[top] {
            Node::List(list) => list.extend(items),
            _ => return Err(damaged("the pickle appends to something that is not a list").into()),
        }
        Ok(())
    }

    fn extend_dict(&mut self, items: Vec<Id>) -> Step<()> {
        let top = self.top()?;
        match &mut self.nodes[top] {
            Node::Dict(entries) if items.len().is_multiple_of(2) => {
                entries.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])));
            }
            _ => return Err(damaged("the pickle sets items of something that is not a dictionary").into()),
        }
        Ok(())
    }

    fn remember(&mut self, size: usize) -> Step<()> {
        let key = self.number(size)? as u64;
        let top = self.top()?;
        self.memo.insert(key, top);
        Ok(())
    }

    fn recall(&mut self, size: usize) -> Step<()> {
        let key = self.number(size)? as u64;
        let id = self.memo.get(&key).copied();
        self.stack.push(id.ok_or_else(|| damaged("the pickle reads a memo entry that it never stored").found(key))?);
        Ok(())
    }
}

fn damaged(what: &str) -> InputError {
    InputError::new(what).advice("the file is damaged; copy it again, or save it again with torch.save")
}

fn empty_stack() -> Box<InputError> {
    damaged("the pickle pops from an empty stack").into()
}

/// A two's complement number.
fn integer(digits: &[u8]) -> Node<'_> {
    if digits.len() > 8 {
        return Node::Long(digits);
    }
    let fill = if digits.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
    let mut bytes = [fill; 8];
    bytes[..digits.len()].copy_from_slice(digits);
    Node::Int(i64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Tree<'_>> {
        Tree::read(bytes, 0, &Budget::new(1 << 26))
    }

    #[test]
    fn containers_and_numbers_are_read() {
        // {'a': (1, 300, -1, 70000), 'b': [True]} as protocol 2 with memo.
        let bytes = b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01(K\x01M\x2c\x01J\xff\xff\xff\xff\x8a\x03\x70\x11\x01tX\x01\x00\x00\x00b]\x88au.";
        let tree = read(bytes).unwrap();
        let Node::Dict(entries) = tree.node(tree.root) else { panic!("{tree:?}") };
        assert_eq!(tree.text(entries[0].0), Some("a"));
        let Node::Tuple(items) = tree.node(entries[0].1) else { panic!("{tree:?}") };
        let numbers: Vec<&Node> = items.iter().map(|&item| tree.node(item)).collect();
        assert_eq!(numbers, [&Node::Int(1), &Node::Int(300), &Node::Int(-1), &Node::Int(70000)]);
        let Node::List(items) = tree.node(entries[1].1) else { panic!("{tree:?}") };
        assert_eq!(*tree.node(items[0]), Node::Bool(true));
    }

    #[test]
    fn names_and_instructions_outside_the_list_are_refused() {
        // os.system('x') by GLOBAL and by STACK_GLOBAL.
        for bytes in [
            &b"\x80\x02cos\nsystem\nX\x01\x00\x00\x00x\x85R."[..],
            b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x01x\x85R.",
        ] {
            let error = read(bytes).unwrap_err().to_string();
            assert!(error.contains("os.system") && error.contains("byte"), "{error}");
        }
        // torch.save is not on the list of names, INST not on that of instructions.
        assert!(read(b"\x80\x02ctorch\nsave\n.").unwrap_err().to_string().contains("torch.save"));
        assert!(read(b"\x80\x02(ios\nsystem\n.").unwrap_err().to_string().contains("0x69"));
    }

    #[test]
    fn invalid_pickles_are_refused() {
        for bytes in [
            &b""[..],
            b"\x80\x02",
            b"\x80\x09.",
            b".",
            b"\x80\x02t.",
            b"\x80\x02(0.",
            b"\x80\x02h\x05.",
            b"\x80\x02K\x01a.",
            b"\x80\x02}K\x01u.",
            b"\x80\x02K\x01K\x01R.",
            b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
            b"\x80\x02X\x01\x00\x00\x00\xff.",
            b"\x80\x02(\x85.",
        ] {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn the_text_and_the_dictionaries_of_python_2_are_read() {
        // OrderedDict([['a', 7]]) with the text as bytes.
        let tree = read(b"\x80\x02ccollections\nOrderedDict\n](](U\x01aK\x07ee\x85R.").unwrap();
        let Node::Dict(entries) = tree.node(tree.root) else { panic!("{tree:?}") };
        assert_eq!((tree.text(entries[0].0), tree.node(entries[0].1)), (Some("a"), &Node::Int(7)));
    }

    #[test]
    fn memory_is_reserved_while_the_tree_grows() {
        let many = [b"\x80\x02(".to_vec(), b"N".repeat(5000), b"t.".to_vec()].concat();
        assert!(Tree::read(&many, 0, &Budget::new(2 * STEPS * STEP_BYTES)).is_ok());
        assert!(Tree::read(&many, 0, &Budget::new(STEPS * STEP_BYTES)).is_err());
        // A pickle may be followed by others.
        let two = b"\x80\x02N.\x80\x02K\x05.";
        let tree = Tree::read(two, read(two).unwrap().end, &Budget::new(1 << 20)).unwrap();
        assert_eq!((tree.node(tree.root), tree.end), (&Node::Int(5), two.len()));
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, known in "[N)(}\\]tu.seaKq0h2RbQ\u{0}\u{1}]{0,40}") {
            let _ = read(&bytes);
            let _ = read(known.as_bytes());
        }
    }
}
