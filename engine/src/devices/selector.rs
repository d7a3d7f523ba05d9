//! Which devices an expression of a claim or of a class selects. Expressions are CEL, evaluated for one device at a time as Kubernetes does.
//!
//! Tenants write these expressions. The API server bounds what they cost the API server itself. Here an expression is evaluated only if its
//! cost per device is bounded by the length of its text (known functions, no loop within a loop, patterns of which the length is written in
//! the expression), and if Kubernetes takes it alike (`alike`). Any other expression is reported as not evaluated; nothing is guessed.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use crds::bounds::printable;
use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::{Expr, IdedExpr, LiteralValue};
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::Key;
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, FunctionContext, Program, Value};
use regex_lite::Regex;
use thiserror::Error;

use super::bindings::Expanded;
use super::model::{Attribute, Described};
use super::optional::{self, ATTRIBUTES_OR_NONE, CAPACITY_OR_NONE, Unsupported};
use super::{alike, bindings};

/// The most characters of an expression, as in Kubernetes.
const MAX_LENGTH: usize = 10 * 1024;
/// The deepest nesting of brackets.
const MAX_DEPTH: usize = 48;
/// The most operators, dots, commas and brackets of an expression.
const MAX_OPERATORS: usize = 256;
/// Twice the stack that the deepest of these expressions take in a debug build: reading takes 70 kB for a bracket there.
const STACK: usize = 32 << 20;
/// The most patterns of an expression.
const MAX_PATTERNS: usize = 8;
/// The most characters of an expression with a loop: its cost grows with the square of the length.
const MAX_LENGTH_OF_LOOP: usize = 1024;
/// How many characters each part counts for that a name stands for.
const LENGTH_OF_PART: usize = 16;
/// The least cost of evaluating an expression, in steps.
const EVALUATION: usize = 256;

/// The functions and operators whose cost is bounded by the length of their arguments.
const KNOWN: [&str; 43] = [
    "_&&_",
    "_||_",
    "!_",
    "_==_",
    "_!=_",
    "_<_",
    "_<=_",
    "_>_",
    "_>=_",
    "_+_",
    "_-_",
    "_*_",
    "_/_",
    "_%_",
    "-_",
    "_?_:_",
    "_[_]",
    "_?._",
    "_[?_]",
    "orValue",
    "hasValue",
    "value",
    "@in",
    "@not_strictly_false",
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "lowerAscii",
    "upperAscii",
    "trim",
    "quantity",
    "isQuantity",
    "compareTo",
    "isGreaterThan",
    "isLessThan",
    "sign",
    "semver",
    "isSemver",
    "major",
    "minor",
    "patch",
];

/// Why an expression is not evaluated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SelectorError {
    /// It is no CEL, or CEL that can't be read here.
    #[error("it can't be read: {0}")]
    Unreadable(String),
    /// It is longer than Kubernetes allows.
    #[error("it is longer than {MAX_LENGTH} characters")]
    TooLong,
    /// Its brackets are nested too deeply.
    #[error("its brackets are nested deeper than {MAX_DEPTH}")]
    TooDeep,
    /// It has too many operators.
    #[error("it has more than {MAX_OPERATORS} operators, dots, commas and brackets")]
    TooManyOperators,
    /// It calls what may cost more than its text is long, or is not known.
    #[error("Cardgate does not evaluate {0}")]
    Unsupported(String),
}

/// What an expression says of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// The device is selected.
    Selected,
    /// The device is not selected.
    PassedOver,
    /// The device is not selected, since it lacks something that the expression asks of it. Kubernetes takes that for an error, not for an
    /// answer.
    Failed,
}

/// An expression over one device.
#[derive(Debug)]
pub struct Selector {
    expression: IdedExpr,
    /// The texts in the expression, by which it may name attributes.
    texts: BTreeSet<String>,
    /// Whether the expression may look at attributes that it does not name.
    looks_at_all: bool,
    /// The cost of evaluating the expression, in steps.
    cost: usize,
}

/// All functions of Kubernetes, made once.
static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut functions = Context::default().with_all();
    functions.add_function("matches", matches);
    functions.add_function("size", size);
    functions
});
/// Programs that make values of the types that only functions can make.
static SEMVER: LazyLock<Option<Program>> = LazyLock::new(|| Program::compile("semver(text)").ok());
static QUANTITY: LazyLock<Option<Program>> = LazyLock::new(|| Program::compile("quantity(text)").ok());

impl Selector {
    /// Reads an expression.
    pub fn read(text: &str) -> Result<Self, SelectorError> {
        if text.len() > MAX_LENGTH {
            return Err(SelectorError::TooLong);
        }
        let (depth, operators) = depth_and_operators(text);
        if depth > MAX_DEPTH {
            return Err(SelectorError::TooDeep);
        }
        if operators > MAX_OPERATORS {
            return Err(SelectorError::TooManyOperators);
        }
        if alike::has_repeated_operators(text) {
            return Err(SelectorError::Unsupported("!!, -- and comments".to_owned()));
        }
        stacker::grow(STACK, || {
            let expression = Parser::default().enable_optional_syntax(true).parse(text);
            // Only the first error: each error repeats all that stands before it.
            let expression = expression.map_err(|error| {
                let first = error.errors.first().map(ToString::to_string);
                SelectorError::Unreadable(first_line(&first.unwrap_or_default()))
            })?;
            let Expanded { expression, added } = bindings::expand(expression).map_err(SelectorError::Unsupported)?;
            let length = text.len() + added * LENGTH_OF_PART;
            let mut look = Look::default();
            look.at(&expression, 0)?;
            if look.patterns > MAX_PATTERNS {
                return Err(SelectorError::Unsupported(format!(
                    "matches more than {MAX_PATTERNS} times"
                )));
            }
            if look.loops && length > MAX_LENGTH_OF_LOOP {
                return Err(SelectorError::Unsupported(format!(
                    "a loop in an expression of more than {MAX_LENGTH_OF_LOOP} characters"
                )));
            }
            alike::check(&expression).map_err(SelectorError::Unsupported)?;
            let rounds = if look.loops { length / 16 } else { 1 };
            Ok(Self {
                expression: optional::put(expression).map_err(|Unsupported(what)| SelectorError::Unsupported(what))?,
                texts: look.texts,
                looks_at_all: look.looks_at_all,
                cost: EVALUATION + length * rounds.max(1) + look.patterns * EVALUATION,
            })
        })
    }

    /// Whether the expression may depend on an attribute of this name.
    pub fn may_name(&self, attribute: &str) -> bool {
        self.looks_at_all || self.texts.contains(attribute)
    }

    /// Returns the cost of evaluating the expression, in steps.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// Returns what the expression says of a device.
    pub fn says(&self, device: &Described<'_>) -> Says {
        let mut context = FUNCTIONS.new_inner_scope();
        context.add_variable_from_value("device", self.value_of(device));
        let said = stacker::grow(STACK, || Value::resolve(&self.expression, &context));
        match said {
            Ok(Value::Bool(true)) => Says::Selected,
            Err(ExecutionError::NoSuchKey(_)) => Says::Failed,
            Ok(_) | Err(_) => Says::PassedOver,
        }
    }

    /// Returns a device as the expression sees it.
    fn value_of(&self, device: &Described<'_>) -> Value {
        let mut attributes = HashMap::<Key, Value>::new();
        for (name, attribute) in device.attributes() {
            put(&mut attributes, name, value_of_attribute(attribute));
        }
        let mut capacity = HashMap::<Key, Value>::new();
        for (name, quantity) in device.capacity() {
            put(&mut capacity, name, made(QUANTITY.as_ref(), quantity));
        }
        let mut fields = HashMap::<Key, Value>::new();
        fields.insert("driver".into(), device.driver().to_owned().into());
        fields.insert(ATTRIBUTES_OR_NONE.into(), self.or_none(&attributes));
        fields.insert(CAPACITY_OR_NONE.into(), self.or_none(&capacity));
        fields.insert("attributes".into(), attributes.into());
        fields.insert("capacity".into(), capacity.into());
        fields.insert("allowMultipleAllocations".into(), Value::Bool(device.model.is_shared));
        fields.into()
    }

    /// Returns the same domains, and each domain that the expression names: empty where the device has nothing of it.
    fn or_none(&self, domains: &HashMap<Key, Value>) -> Value {
        let mut all = domains.clone();
        for text in &self.texts {
            all.entry(text.as_str().into())
                .or_insert_with(|| HashMap::<Key, Value>::new().into());
        }
        all.into()
    }
}

/// Returns how deeply brackets are nested, and how many operators there are: a chain of operators is as deep as it is long. Brackets and
/// operators within texts count as well.
fn depth_and_operators(text: &str) -> (usize, usize) {
    let (mut depth, mut deepest, mut operators) = (0_usize, 0, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
                operators += 1;
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' | b'+' | b'-' | b'*' | b'/' | b'%' | b'!' | b'?' | b'<' | b'>' | b'=' | b'&' | b'|' | b'.' => {
                operators += 1;
            }
            _ => {}
        }
    }
    (deepest, operators)
}

fn first_line(text: &str) -> String {
    let line: String = text.lines().next().unwrap_or_default().chars().take(200).collect();
    printable(&line).into_owned()
}

/// What is found in an expression.
#[derive(Debug, Default)]
struct Look {
    texts: BTreeSet<String>,
    loops: bool,
    looks_at_all: bool,
    patterns: usize,
}

impl Look {
    fn at(&mut self, expression: &IdedExpr, loops: usize) -> Result<(), SelectorError> {
        match &expression.expr {
            Expr::Unspecified | Expr::Ident(_) => Ok(()),
            Expr::Literal(literal) => {
                if let LiteralValue::String(text) = literal {
                    self.texts.insert(text.inner().to_owned());
                }
                Ok(())
            }
            Expr::Call(call) => {
                if !KNOWN.contains(&&*call.func_name) {
                    return Err(SelectorError::Unsupported(format!(
                        "function {}",
                        name_of(&call.func_name)
                    )));
                }
                match &*call.func_name {
                    "matches" if loops > 0 => {
                        return Err(SelectorError::Unsupported("matches within a loop".to_owned()));
                    }
                    "matches" => self.patterns += 1,
                    // The expression asks for the number of all that a device has, or for one of them by a name that is known only on
                    // evaluation.
                    "size" => self.looks_at_all = true,
                    "_[_]" | "_[?_]" | "@in" if call.args.iter().all(is_made) => self.looks_at_all = true,
                    // The expression asks whether a device says anything for a domain: that may be what tells the device from others.
                    "@in" if call.args.last().is_some_and(is_of_device) => self.looks_at_all = true,
                    _ => {}
                }
                let parts = call.target.iter().map(|target| &**target).chain(&call.args);
                parts.into_iter().try_for_each(|part| self.at(part, loops))
            }
            Expr::Select(select) => {
                self.texts.insert(select.field.clone());
                self.at(&select.operand, loops)
            }
            Expr::List(list) => list.elements.iter().try_for_each(|element| self.at(element, loops)),
            Expr::Map(_) => Err(SelectorError::Unsupported("maps".to_owned())),
            Expr::Comprehension(comprehension) => {
                if loops > 0 {
                    return Err(SelectorError::Unsupported("a loop within a loop".to_owned()));
                }
                (self.loops, self.looks_at_all) = (true, true);
                self.at(&comprehension.iter_range, loops)?;
                [
                    &comprehension.accu_init,
                    &comprehension.loop_cond,
                    &comprehension.loop_step,
                    &comprehension.result,
                ]
                .into_iter()
                .try_for_each(|part| self.at(part, loops + 1))
            }
            Expr::Struct(_) => Err(SelectorError::Unsupported("messages".to_owned())),
        }
    }
}

fn name_of(function: &str) -> String {
    function.chars().take(40).collect()
}

/// Whether a part of an expression is all that a device says of something, such as `device.attributes`.
fn is_of_device(part: &IdedExpr) -> bool {
    matches!(&part.expr, Expr::Select(select) if matches!(select.operand.expr, Expr::Ident(_)))
}

/// Whether the value of a part is known only on evaluation: the part is neither a text or number nor a list of such.
fn is_made(part: &IdedExpr) -> bool {
    match &part.expr {
        Expr::Literal(_) => false,
        Expr::List(list) => list.elements.iter().any(is_made),
        _ => true,
    }
}

/// Returns how many letters a text has, or elements a list. The `cel` crate's own function counts bytes.
fn size(context: &FunctionContext<'_, '_>, This(of): This<Value>) -> Result<i64, ExecutionError> {
    let size = match &of {
        Value::String(text) => text.chars().count(),
        Value::List(list) => list.len(),
        _ => return Err(context.error("it has no size")),
    };
    i64::try_from(size).map_err(|error| context.error(error.to_string()))
}

/// Whether a text matches a pattern. Kubernetes' character classes are ASCII, as are those of this library. The `cel` crate's own function
/// takes a second to read a pattern with large classes.
#[expect(
    clippy::needless_pass_by_value,
    reason = "arguments of functions are handed over like this"
)]
fn matches(
    context: &FunctionContext<'_, '_>,
    This(text): This<Arc<String>>,
    pattern: Arc<String>,
) -> Result<bool, ExecutionError> {
    let read = Regex::new(&pattern).map_err(|error| context.error(error.to_string()))?;
    Ok(read.is_match(&text))
}

fn value_of_attribute(attribute: &Attribute) -> Value {
    match attribute {
        Attribute::Bool(value) => Value::Bool(*value),
        Attribute::Int(value) => Value::Int(*value),
        Attribute::Text(text) => text.to_string().into(),
        // What stands after a plus sign does not count when versions are compared.
        Attribute::Version(text) => made(SEMVER.as_ref(), text.split('+').next().unwrap_or_default()),
        Attribute::List(list) => list.iter().map(value_of_attribute).collect::<Vec<_>>().into(),
    }
}

/// Puts a value under its domain and name.
fn put(domains: &mut HashMap<Key, Value>, qualified: &str, value: Value) {
    let Some((domain, name)) = qualified.split_once('/') else {
        return;
    };
    let names = domains
        .entry(domain.to_owned().into())
        .or_insert_with(|| HashMap::<Key, Value>::new().into());
    if let Value::Map(names) = names {
        Arc::make_mut(&mut names.map).insert(name.to_owned().into(), value);
    }
}

/// Returns what a function makes of a text; null where it can't.
fn made(function: Option<&Program>, text: &str) -> Value {
    let mut context = FUNCTIONS.new_inner_scope();
    context.add_variable_from_value("text", text.to_owned());
    function
        .and_then(|function| function.execute(&context).ok())
        .unwrap_or(Value::Null)
}
