//! From the text of an expression to its tree.
//!
//! Decides the grammar: CEL with its macros, the optional syntax (`.?`, `[?]`) and `cel.bind`,
//! which device selectors are advised to use. Nesting and length are bounded, so that no text can
//! use up the stack.

use std::sync::Arc;

use super::Fault;
use super::lex::{Token, tokens};
use super::value::Value;

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
    /// `name(args)` or `base.name(args)`.
    Call(Option<Box<Expr>>, Arc<str>, Vec<Expr>),
    /// `[a, b]`.
    List(Vec<Expr>),
    /// `{a: b}`.
    Map(Vec<(Expr, Expr)>),
    /// `!a` or `-a`.
    Unary(&'static str, Box<Expr>),
    /// `a + b` and its like.
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// `a ? b : c`.
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `range.all(x, body)` and its like; `map` may have a filter before its body.
    Each(Each, Box<Expr>, Arc<str>, Option<Box<Expr>>, Box<Expr>),
    /// `cel.bind(x, value, body)`.
    Bind(Arc<str>, Box<Expr>, Box<Expr>),
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
    /// `map`.
    Map,
    /// `filter`.
    Filter,
}

/// Longest expression, in bytes: what an API server takes.
const LENGTH_MAX: usize = 10 * 1024;

/// Deepest nesting; people write a handful.
const DEPTH_MAX: usize = 32;

/// Tallest tree: what is evaluated goes so deep, and a row of terms makes a tall one.
const HEIGHT_MAX: usize = 160;

/// Binary operators by how strongly they bind, weakest first.
const LEVELS: [&[&str]; 5] =
    [&["||"], &["&&"], &["<", "<=", ">", ">=", "==", "!=", "in"], &["+", "-"], &["*", "/", "%"]];

/// Parses an expression.
pub fn parse(text: &str) -> Result<Expr, Fault> {
    if text.len() > LENGTH_MAX {
        return Err(Fault::new(format!("it is longer than {LENGTH_MAX} bytes")));
    }
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0, height: 0 };
    let expression = parser.choice()?;
    match parser.peek() {
        None => Ok(expression),
        Some(_) => Err(parser.unexpected()),
    }
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
    /// Of the tree that was made last.
    height: usize,
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

    /// One more level above trees of at most this height.
    fn raise(&mut self, below: usize) -> Result<(), Fault> {
        self.height = below + 1;
        match self.height > HEIGHT_MAX {
            true => Err(Fault::new("it has too many terms in a row")),
            false => Ok(()),
        }
    }

    fn unexpected(&self) -> Fault {
        match self.tokens.get(self.at) {
            Some((token, at)) => Fault::new(format!("unexpected {token} at byte {at}")),
            None => Fault::new("it ends too soon"),
        }
    }

    fn choice(&mut self) -> Result<Expr, Fault> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Fault::new(format!("it is nested more than {DEPTH_MAX} deep")));
        }
        let condition = self.binary(0)?;
        let expression = match self.take("?") {
            false => condition,
            true => {
                let mut tallest = self.height;
                let yes = self.binary(0)?;
                tallest = tallest.max(self.height);
                self.need(":")?;
                let no = self.choice()?;
                self.raise(tallest.max(self.height))?;
                Expr::Choice(Box::new(condition), Box::new(yes), Box::new(no))
            }
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn binary(&mut self, level: usize) -> Result<Expr, Fault> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = operators.iter().find(|operator| self.is(operator)) {
            self.at += 1;
            let height = self.height;
            let right = self.binary(level + 1)?;
            self.raise(height.max(self.height))?;
            left = Expr::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, Fault> {
        for operator in ["!", "-"] {
            if self.take(operator) {
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    return Err(Fault::new(format!("it is nested more than {DEPTH_MAX} deep")));
                }
                let of = self.unary()?;
                self.depth -= 1;
                self.raise(self.height)?;
                return Ok(match (operator, of) {
                    ("-", Expr::Literal(Value::Int(number))) => {
                        Expr::Literal(Value::Int(number.wrapping_neg()))
                    }
                    (_, of) => Expr::Unary(operator, Box::new(of)),
                });
            }
        }
        self.member()
    }

    fn member(&mut self) -> Result<Expr, Fault> {
        let mut base = self.primary()?;
        loop {
            if self.take(".") {
                let optional = self.take("?");
                let name = self.word()?;
                let height = self.height;
                base = match !optional && self.take("(") {
                    true => self.method(base, name)?,
                    false => Expr::Field(Box::new(base), name, optional),
                };
                self.raise(height.max(self.height))?;
            } else if self.take("[") {
                let optional = self.take("?");
                let height = self.height;
                let index = self.choice()?;
                self.need("]")?;
                self.raise(height.max(self.height))?;
                base = Expr::Index(Box::new(base), Box::new(index), optional);
            } else {
                return Ok(base);
            }
        }
    }

    fn word(&mut self) -> Result<Arc<str>, Fault> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn primary(&mut self) -> Result<Expr, Fault> {
        let Some(token) = self.peek().cloned() else { return Err(self.unexpected()) };
        self.height = 1;
        match token {
            Token::Value(value) => {
                self.at += 1;
                Ok(Expr::Literal(value))
            }
            Token::Word(name) if &*name != "in" => {
                self.at += 1;
                match &*name {
                    "true" | "false" => return Ok(Expr::Literal(Value::Bool(&*name == "true"))),
                    "null" => return Ok(Expr::Literal(Value::Null)),
                    _ => {}
                }
                if !self.take("(") {
                    return Ok(Expr::Variable(name));
                }
                let args = self.arguments(")")?;
                match (&*name, args.as_slice()) {
                    ("has", [Expr::Field(base, field, false)]) => {
                        Ok(Expr::Has(base.clone(), field.clone()))
                    }
                    ("has", _) => Err(Fault::new("has() needs one field, such as has(a.b)")),
                    _ => Ok(Expr::Call(None, name, args)),
                }
            }
            Token::Symbol("(") => {
                self.at += 1;
                let inner = self.choice()?;
                self.need(")")?;
                Ok(inner)
            }
            Token::Symbol("[") => {
                self.at += 1;
                Ok(Expr::List(self.arguments("]")?))
            }
            Token::Symbol("{") => {
                self.at += 1;
                self.map()
            }
            _ => Err(self.unexpected()),
        }
    }

    fn arguments(&mut self, end: &str) -> Result<Vec<Expr>, Fault> {
        let (mut all, mut tallest) = (Vec::new(), 0);
        while !self.take(end) {
            all.push(self.choice()?);
            tallest = tallest.max(self.height);
            if !self.is(end) {
                self.need(",")?;
            }
        }
        self.raise(tallest)?;
        Ok(all)
    }

    fn map(&mut self) -> Result<Expr, Fault> {
        let (mut all, mut tallest) = (Vec::new(), 0);
        while !self.take("}") {
            let key = self.choice()?;
            tallest = tallest.max(self.height);
            self.need(":")?;
            all.push((key, self.choice()?));
            tallest = tallest.max(self.height);
            if !self.is("}") {
                self.need(",")?;
            }
        }
        self.raise(tallest)?;
        Ok(Expr::Map(all))
    }

    fn method(&mut self, base: Expr, name: Arc<str>) -> Result<Expr, Fault> {
        let args = self.arguments(")")?;
        let each = match &*name {
            "all" => Each::All,
            "exists" => Each::Exists,
            "exists_one" | "existsOne" => Each::ExistsOne,
            "map" => Each::Map,
            "filter" => Each::Filter,
            _ => {
                let bind = &*name == "bind" && base == Expr::Variable("cel".into());
                return match <[Expr; 3]>::try_from(args) {
                    Ok([Expr::Variable(x), value, body]) if bind => {
                        Ok(Expr::Bind(x, Box::new(value), Box::new(body)))
                    }
                    Ok(_) | Err(_) if bind => {
                        Err(Fault::new("cel.bind() needs a name, a value and an expression"))
                    }
                    Ok(args) => Ok(Expr::Call(Some(Box::new(base)), name, args.into())),
                    Err(args) => Ok(Expr::Call(Some(Box::new(base)), name, args)),
                };
            }
        };
        let (base, mut args) = (Box::new(base), args);
        let body = args.pop().map(Box::new);
        let filter = if each == Each::Map && args.len() == 2 { args.pop() } else { None };
        match (args.as_slice(), body) {
            ([Expr::Variable(x)], Some(body)) => {
                Ok(Expr::Each(each, base, x.clone(), filter.map(Box::new), body))
            }
            _ => Err(Fault::new(format!("{name}() needs one name and an expression"))),
        }
    }
}
