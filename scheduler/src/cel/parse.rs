//! From the text of an expression to its tree.
//!
//! Decides the grammar: CEL with its macros and the optional syntax (`.?`, `[?]`, `{?k: v}`).
//! Nesting and length are bounded, so that no text can use up the stack. What people write is far
//! below what Kubernetes takes: who goes that deep is read and evaluated on a stack of its own.

use std::sync::Arc;

use super::lex::{Token, tokens};
use super::value::Value;
use super::{Fault, macros, types};

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A value.
    Literal(Value),
    /// A variable.
    Variable(Arc<str>),
    /// `base.field`; optional: `base.?field`.
    Field(Box<Expr>, Arc<str>, bool),
    /// `has(base.field)`.
    Has(Box<Expr>, Arc<str>),
    /// `base[index]`; optional: `base[?index]`.
    Index(Box<Expr>, Box<Expr>, bool),
    /// `name(args)` or `base.name(args)`; names of functions may have a dot.
    Call(Option<Box<Expr>>, Arc<str>, Vec<Expr>),
    /// `[a, b]`, each of them optional or not: `[?a]`.
    List(Vec<(Expr, bool)>),
    /// `{a: b}`, each of them optional or not: `{?a: b}`.
    Map(Vec<(Expr, Expr, bool)>),
    /// `!a` or `-a`.
    Unary(&'static str, Box<Expr>),
    /// `a + b` and its like.
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// `a ? b : c`.
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `range.all(x, body)` and its like.
    Each(Box<Loop>),
    /// `cel.bind(x, value, body)`.
    Bind(Arc<str>, Box<Expr>, Box<Expr>),
    /// `base.optMap(x, body)`, or with `true` `base.optFlatMap(x, body)`.
    OptMap(Box<Expr>, Arc<str>, Box<Expr>, bool),
}

/// Something that is done with each element of a range.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// What.
    pub each: Each,
    /// The range.
    pub range: Expr,
    /// What elements are called, or keys if a second name is there for values.
    pub names: (Arc<str>, Option<Arc<str>>),
    /// Which elements.
    pub filter: Option<Expr>,
    /// What is made of them.
    pub body: Expr,
}

/// What is done with each element of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Each {
    /// `all`.
    All,
    /// `exists`.
    Exists,
    /// `exists_one`.
    ExistsOne,
    /// `map`, `transformList`.
    Map,
    /// `filter`.
    Filter,
    /// `transformMap`.
    Entries,
    /// `transformMapEntry`.
    Merge,
    /// `sortBy`.
    SortBy,
}

/// Longest expression, in bytes: what an API server takes.
const LENGTH_MAX: usize = 10 * 1024;

/// How deep an expression may go.
#[derive(Clone, Copy)]
struct Bounds {
    /// Deepest nesting.
    depth: usize,
    /// Tallest tree: what is evaluated goes so deep, and a row of terms makes a tall one.
    height: usize,
}

/// What any stack has room for; people write a handful.
const LOW: Bounds = Bounds { depth: 32, height: 160 };

/// The nesting that Kubernetes takes. What it takes of terms in a row is counted apart, as are
/// signs: with both, and with `&&` and `||` in each level, a tree is this tall.
const DEEP: Bounds = Bounds { depth: NESTED_MAX, height: 1_200 };

/// Most levels that Kubernetes takes of anything it counts.
const NESTED_MAX: usize = 250;

/// The stack for what goes deep, in bytes: a level takes some thousands.
const STACK: usize = 64 << 20;

/// Binary operators by how strongly they bind, weakest first: `||`, `&&`, relations, and those of
/// arithmetic.
const LEVELS: [&[&str]; 5] =
    [&["||"], &["&&"], &["<", "<=", ">", ">=", "==", "!=", "in"], &["+", "-"], &["*", "/", "%"]];

const RELATION: usize = 2;
const SUM: usize = 3;

/// Names that CEL keeps for itself.
const RESERVED: [&str; 15] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
];

/// An expression that was read.
#[derive(Clone, Debug)]
pub struct Program {
    /// The expression.
    pub tree: Expr,
    /// It needs a stack of its own.
    deep: bool,
}

impl Program {
    /// What it costs to begin with it: a thread, or nothing.
    pub fn entry(&self) -> u64 {
        if self.deep { THREAD } else { 0 }
    }

    /// Does something that goes through all of the tree.
    pub fn go_through<T: Send>(&self, what: impl FnOnce(&Expr) -> T + Send) -> Result<T, Fault> {
        match self.deep {
            true => on_large_stack(|| what(&self.tree)),
            false => Ok(what(&self.tree)),
        }
    }
}

/// Parses an expression of a device selector, and refuses what can never be evaluated.
pub fn parse(text: &str) -> Result<Program, Fault> {
    if text.len() > LENGTH_MAX {
        return Err(Fault::new(format!("it is longer than {LENGTH_MAX} bytes")));
    }
    let (read, deep) = match read(text, LOW) {
        (_, true) => (on_large_stack(|| read(text, DEEP).0).flatten(), true),
        low => low,
    };
    read.map(|tree| Program { tree, deep })
}

/// Reads and checks an expression; whether it goes deeper than it may.
fn read(text: &str, bounds: Bounds) -> (Result<Expr, Fault>, bool) {
    let tokens = match tokens(text) {
        Ok(tokens) => tokens,
        Err(fault) => return (Err(fault), false),
    };
    let height = Height::default();
    let mut parser =
        Parser { tokens, bounds, at: 0, depth: 0, within: [0; 2], height, too_deep: false };
    let read = parser.choice().and_then(|expression| match parser.peek() {
        Some(_) => Err(parser.unexpected()),
        None => types::check(&expression).map(|_| expression),
    });
    (read, parser.too_deep)
}

/// Steps that a thread takes as long as, to begin and to end, on a busy machine.
const THREAD: u64 = 20_000;

/// Does something that may go deep.
fn on_large_stack<T: Send>(what: impl FnOnce() -> T + Send) -> Result<T, Fault> {
    let no_room = || Fault::new("there is no room for what is nested so deep");
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(STACK);
        let thread = builder.spawn_scoped(scope, what).map_err(|_| no_room())?;
        thread.join().map_err(|_| no_room())
    })
}

/// How tall a tree is.
#[derive(Clone, Copy, Default)]
struct Height {
    /// All of it.
    tree: usize,
    /// What Kubernetes counts of it: choices, relations, arithmetic, fields, methods and elements.
    counted: usize,
}

impl Height {
    fn max(self, other: Height) -> Height {
        Height { tree: self.tree.max(other.tree), counted: self.counted.max(other.counted) }
    }
}

fn nested(most: usize) -> Fault {
    Fault::new(format!("it is nested more than {most} deep"))
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    bounds: Bounds,
    at: usize,
    depth: usize,
    /// In how many relations and sums it is, each with its right sides, as Kubernetes counts them.
    within: [usize; 2],
    /// Of the tree that was made last.
    height: Height,
    /// It went deeper than the bounds.
    too_deep: bool,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn is(&self, symbol: &str) -> bool {
        match self.peek() {
            Some(Token::Symbol(found)) => *found == symbol,
            Some(Token::Word(found)) => symbol == "in" && &**found == "in",
            _ => false,
        }
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        self.at += usize::from(found);
        found
    }

    fn need(&mut self, symbol: &str) -> Result<(), Fault> {
        if self.take(symbol) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// One more level above trees of at most this height; whether it counts in Kubernetes.
    fn raise(&mut self, below: Height, counts: bool) -> Result<(), Fault> {
        let counted = below.counted + usize::from(counts);
        self.height = Height { tree: below.tree + 1, counted };
        let too_tall = self.height.tree > self.bounds.height;
        self.too_deep |= too_tall;
        match too_tall || counted > NESTED_MAX {
            true => Err(Fault::new("it has too many terms in a row")),
            false => Ok(()),
        }
    }

    fn deepen(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        let most = self.bounds.depth;
        match self.depth > most {
            true => {
                self.too_deep = true;
                Err(nested(most))
            }
            false => Ok(()),
        }
    }

    /// Begins a relation or a sum, or a right side of one.
    fn enter(&mut self, level: usize) -> Result<(), Fault> {
        let within = &mut self.within[level - RELATION];
        *within += 1;
        if *within > NESTED_MAX { Err(nested(NESTED_MAX)) } else { Ok(()) }
    }

    fn leave(&mut self, level: usize) {
        self.within[level - RELATION] -= 1;
    }

    fn unexpected(&self) -> Fault {
        match self.tokens.get(self.at) {
            Some((token, at)) => Fault::new(format!("unexpected {token} at byte {at}")),
            None => Fault::new("it ends too soon"),
        }
    }

    fn choice(&mut self) -> Result<Expr, Fault> {
        self.deepen()?;
        let condition = self.terms(0)?;
        let expression = match self.take("?") {
            false => condition,
            true => {
                let mut tallest = self.height;
                let yes = self.terms(0)?;
                tallest = tallest.max(self.height);
                self.need(":")?;
                let no = self.choice()?;
                self.raise(tallest.max(self.height), true)?;
                Expr::Choice(Box::new(condition), Box::new(yes), Box::new(no))
            }
        };
        self.depth -= 1;
        Ok(expression)
    }

    /// Terms of `||` and `&&`.
    fn terms(&mut self, level: usize) -> Result<Expr, Fault> {
        let [operator @ ("||" | "&&")] = LEVELS[level] else { return self.relation() };
        let mut terms = vec![(self.terms(level + 1)?, self.height)];
        while self.take(operator) {
            let term = self.terms(level + 1)?;
            terms.push((term, self.height));
        }
        self.balanced(operator, terms)
    }

    fn relation(&mut self) -> Result<Expr, Fault> {
        self.enter(RELATION)?;
        let mut left = self.arithmetic(SUM)?;
        while let Some(operator) = self.operator(RELATION) {
            let height = self.height;
            self.enter(RELATION)?;
            let right = self.arithmetic(SUM)?;
            self.leave(RELATION);
            self.raise(height.max(self.height), true)?;
            left = Expr::Binary(operator, Box::new(left), Box::new(right));
        }
        self.leave(RELATION);
        Ok(left)
    }

    /// Terms of operators that bind at least so strongly.
    fn arithmetic(&mut self, weakest: usize) -> Result<Expr, Fault> {
        self.enter(SUM)?;
        let mut left = self.unary()?;
        while let Some((level, operator)) =
            (weakest..LEVELS.len()).find_map(|level| Some((level, self.operator(level)?)))
        {
            let height = self.height;
            let right = self.arithmetic(level + 1)?;
            self.raise(height.max(self.height), true)?;
            left = Expr::Binary(operator, Box::new(left), Box::new(right));
        }
        self.leave(SUM);
        Ok(left)
    }

    /// Takes an operator of a level, if one stands here.
    fn operator(&mut self, level: usize) -> Option<&'static str> {
        let operator = LEVELS[level].iter().copied().find(|operator| self.is(operator))?;
        self.at += 1;
        Some(operator)
    }

    /// Terms of `&&` or `||`: it is all one how they are grouped, and a low tree has room for many.
    fn balanced(
        &mut self,
        operator: &'static str,
        mut terms: Vec<(Expr, Height)>,
    ) -> Result<Expr, Fault> {
        if terms.len() < 2 {
            let (term, height) = terms.pop().ok_or_else(|| self.unexpected())?;
            self.height = height;
            return Ok(term);
        }
        let right = terms.split_off(terms.len().div_ceil(2));
        let left = self.balanced(operator, terms)?;
        let height = self.height;
        let right = self.balanced(operator, right)?;
        self.raise(height.max(self.height), false)?;
        Ok(Expr::Binary(operator, Box::new(left), Box::new(right)))
    }

    /// Signs before a member: all of one kind, and two of them are none.
    fn unary(&mut self) -> Result<Expr, Fault> {
        let sign = match self.negative() {
            Some(_) => None,
            None => ["!", "-"].into_iter().find(|sign| self.take(sign)),
        };
        let Some(sign) = sign else { return self.member() };
        let mut odd = true;
        while self.take(sign) {
            odd = !odd;
        }
        let of = self.member()?;
        if !odd {
            return Ok(of);
        }
        self.raise(self.height, false)?;
        Ok(Expr::Unary(sign, Box::new(of)))
    }

    /// A number below zero: a minus directly before a number belongs to it.
    fn negative(&self) -> Option<Value> {
        match (self.peek(), self.tokens.get(self.at + 1)) {
            (Some(Token::Symbol("-")), Some((Token::Value(value), _))) => match value {
                Value::Int(number) => Some(Value::Int(number.wrapping_neg())),
                Value::Double(number) => Some(Value::Double(-number)),
                _ => None,
            },
            _ => None,
        }
    }

    fn member(&mut self) -> Result<Expr, Fault> {
        let mut base = self.primary()?;
        loop {
            if self.take(".") {
                let optional = self.take("?");
                let height = self.height;
                if let Some(Token::Escaped(name)) = self.peek() {
                    base = Expr::Field(Box::new(base), name.clone(), optional);
                    self.at += 1;
                    self.raise(height, true)?;
                    continue;
                }
                let name = self.word()?;
                base = match !optional && self.take("(") {
                    true => {
                        let args = self.arguments()?;
                        macros::expand(base, name, args)?
                    }
                    false => typed(Expr::Field(Box::new(base), name, optional)),
                };
                self.raise(height.max(self.height), true)?;
            } else if self.take("[") {
                let optional = self.take("?");
                let height = self.height;
                let index = self.choice()?;
                self.need("]")?;
                self.raise(height.max(self.height), true)?;
                base = Expr::Index(Box::new(base), Box::new(index), optional);
            } else if self.is("{") && is_name(&base) {
                return Err(Fault::new("messages of protocol buffers are not supported"));
            } else {
                return Ok(base);
            }
        }
    }

    fn word(&mut self) -> Result<Arc<str>, Fault> {
        match self.peek() {
            Some(Token::Word(word)) if !matches!(&**word, "in" | "true" | "false" | "null") => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn primary(&mut self) -> Result<Expr, Fault> {
        let Some(token) = self.peek().cloned() else { return Err(self.unexpected()) };
        self.height = Height { tree: 1, counted: 0 };
        if let Some(number) = self.negative() {
            self.at += 2;
            return Ok(Expr::Literal(number));
        }
        match token {
            Token::Value(value) => {
                self.at += 1;
                Ok(Expr::Literal(value))
            }
            Token::Word(name) => {
                let literal = match &*name {
                    "true" | "false" => Value::Bool(&*name == "true"),
                    "null" => Value::Null,
                    _ => return self.name(),
                };
                self.at += 1;
                Ok(Expr::Literal(literal))
            }
            // A dot before a name says that it is a whole one.
            Token::Symbol(".") => {
                self.at += 1;
                self.name()
            }
            Token::Symbol("(") => {
                self.at += 1;
                let inner = self.choice()?;
                self.need(")")?;
                Ok(inner)
            }
            Token::Symbol("[") => {
                self.at += 1;
                self.list()
            }
            Token::Symbol("{") => {
                self.at += 1;
                self.map()
            }
            _ => Err(self.unexpected()),
        }
    }

    /// A variable or function.
    fn name(&mut self) -> Result<Expr, Fault> {
        let name = self.word()?;
        if RESERVED.contains(&&*name) || matches!(&*name, "void" | "while") {
            return Err(Fault::new(format!("{name} is a name that CEL keeps for itself")));
        }
        if !self.take("(") {
            return Ok(Expr::Variable(name));
        }
        let args = self.arguments()?;
        match (&*name, args.as_slice()) {
            ("has", [Expr::Field(base, field, false)]) => {
                Ok(Expr::Has(base.clone(), field.clone()))
            }
            ("has", _) => Err(Fault::new("has() needs one field, such as has(a.b)")),
            _ => Ok(Expr::Call(None, name, args)),
        }
    }

    fn arguments(&mut self) -> Result<Vec<Expr>, Fault> {
        let (mut all, mut tallest) = (Vec::new(), Height::default());
        let mut more = !self.take(")");
        while more {
            all.push(self.choice()?);
            tallest = tallest.max(self.height);
            more = self.take(",");
            if !more {
                self.need(")")?;
            }
        }
        self.raise(tallest, false)?;
        Ok(all)
    }

    fn list(&mut self) -> Result<Expr, Fault> {
        let (mut all, mut tallest) = (Vec::new(), Height::default());
        while !self.take("]") {
            let optional = self.take("?");
            all.push((self.choice()?, optional));
            tallest = tallest.max(self.height);
            if !self.is("]") {
                self.need(",")?;
            }
        }
        self.raise(tallest, false)?;
        Ok(Expr::List(all))
    }

    fn map(&mut self) -> Result<Expr, Fault> {
        let (mut all, mut tallest) = (Vec::new(), Height::default());
        while !self.take("}") {
            let optional = self.take("?");
            let key = self.choice()?;
            tallest = tallest.max(self.height);
            self.need(":")?;
            all.push((key, self.choice()?, optional));
            tallest = tallest.max(self.height);
            if !self.is("}") {
                self.need(",")?;
            }
        }
        self.raise(tallest, false)?;
        Ok(Expr::Map(all))
    }
}

/// What may stand before the `{` of a message.
fn is_name(expression: &Expr) -> bool {
    matches!(expression, Expr::Literal(Value::Type(_))) || dotted(expression).is_some()
}

/// A name with dots.
fn dotted(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Variable(name) => Some(name.to_string()),
        Expr::Field(base, name, false) => Some(format!("{}.{name}", dotted(base)?)),
        _ => None,
    }
}

/// A name with dots that is the name of a type is that type.
fn typed(expression: Expr) -> Expr {
    let first = match &expression {
        Expr::Field(base, ..) => match &**base {
            Expr::Variable(name) => matches!(&**name, "net"),
            Expr::Field(base, name, _) => {
                **base == Expr::Variable("google".into()) && &**name == "protobuf"
            }
            _ => false,
        },
        _ => false,
    };
    let name = dotted(&expression).filter(|_| first);
    let known = types::DOTTED.into_iter().find(|known| Some(*known) == name.as_deref());
    known.map_or(expression, |known| Expr::Literal(Value::Type(known)))
}
