//! `cel.bind(name, value, expression)`, with which an expression says once what it asks several times, such as a domain of attributes. The
//! evaluator used here does not know it, so the value is put wherever the name stands. Values have no effects: whether they are evaluated
//! once, several times or not at all makes no difference.

use std::collections::{BTreeMap, BTreeSet};

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, Expr};

use super::alike::is_free_name;

/// What the functions of CEL's own extensions are called on.
const CEL: &str = "cel";
/// The most parts that values add to an expression: a value may use the name of another one, and so double with each name.
const MAX_ADDED: usize = 256;

/// An expression without `cel.bind`.
pub struct Expanded {
    pub expression: IdedExpr,
    /// How many parts were added.
    pub added: usize,
}

/// Puts values in the places of their names. The error says what is not supported, in words for the expression's author.
pub fn expand(expression: IdedExpr) -> Result<Expanded, String> {
    let mut bindings = Bindings::default();
    let expression = bindings.put(expression)?;
    Ok(Expanded {
        expression,
        added: bindings.added,
    })
}

/// What names stand for.
#[derive(Default)]
struct Bindings {
    /// The names that are in scope, with their values and the number of parts of these.
    values: BTreeMap<String, (IdedExpr, usize)>,
    /// All names that values were given so far.
    names: BTreeSet<String>,
    /// The variables of loops.
    variables: BTreeSet<String>,
    added: usize,
}

impl Bindings {
    fn put(&mut self, expression: IdedExpr) -> Result<IdedExpr, String> {
        let IdedExpr { id, expr } = expression;
        let expr = match expr {
            Expr::Call(call) if is_bind(&call) => return self.bind(call),
            Expr::Call(mut call) => {
                call.target = call.target.map(|target| self.put(*target).map(Box::new)).transpose()?;
                call.args = self.each(call.args)?;
                Expr::Call(call)
            }
            Expr::Ident(name) => match self.values.get(&name) {
                Some((value, parts)) => {
                    self.added = self.added.saturating_add(*parts);
                    if self.added > MAX_ADDED {
                        return Err("cel.bind whose names stand for as much in so many places".to_owned());
                    }
                    return Ok(value.clone());
                }
                None => Expr::Ident(name),
            },
            Expr::Select(mut select) => {
                select.operand = self.put(*select.operand).map(Box::new)?;
                Expr::Select(select)
            }
            Expr::List(mut list) => {
                list.elements = self.each(list.elements)?;
                Expr::List(list)
            }
            Expr::Comprehension(mut looped) => {
                let variables = [
                    Some(&looped.iter_var),
                    looped.iter_var2.as_ref(),
                    Some(&looped.accu_var),
                ];
                self.variables.extend(variables.into_iter().flatten().cloned());
                if !self.variables.is_disjoint(&self.names) {
                    return Err(ambiguous());
                }
                for part in [
                    &mut looped.iter_range,
                    &mut looped.accu_init,
                    &mut looped.loop_cond,
                    &mut looped.loop_step,
                    &mut looped.result,
                ] {
                    *part = self.put(std::mem::take(part))?;
                }
                Expr::Comprehension(looped)
            }
            // Maps and messages are not evaluated, whatever is in them.
            other @ (Expr::Literal(_) | Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified) => other,
        };
        Ok(IdedExpr { id, expr })
    }

    fn each(&mut self, parts: Vec<IdedExpr>) -> Result<Vec<IdedExpr>, String> {
        parts.into_iter().map(|part| self.put(part)).collect()
    }

    /// Returns the expression of a `cel.bind` with the value in the places of its name.
    fn bind(&mut self, call: CallExpr) -> Result<IdedExpr, String> {
        let odd = || "cel.bind with other than a name, a value and an expression".to_owned();
        let [name, value, within] = <[IdedExpr; 3]>::try_from(call.args).map_err(|_| odd())?;
        let Expr::Ident(name) = name.expr else {
            return Err(odd());
        };
        let value = self.put(value)?;
        let parts = parts_of(&value);
        // With names that stand for one thing each, no value changes what a name within it stands for.
        let is_taken = !is_free_name(&name) || self.variables.contains(&name);
        if is_taken || !self.names.insert(name.clone()) {
            return Err(ambiguous());
        }
        self.values.insert(name.clone(), (value, parts));
        let within = self.put(within);
        self.values.remove(&name);
        within
    }
}

fn ambiguous() -> String {
    "cel.bind with a name that stands for something else".to_owned()
}

fn is_bind(call: &CallExpr) -> bool {
    let target = call.target.as_ref().map(|target| &target.expr);
    call.func_name == "bind" && matches!(target, Some(Expr::Ident(name)) if name == CEL)
}

/// Returns how many parts an expression has.
fn parts_of(expression: &IdedExpr) -> usize {
    let below = |parts: &[IdedExpr]| parts.iter().map(parts_of).sum();
    let below: usize = match &expression.expr {
        Expr::Call(call) => call.target.as_ref().map_or(0, |target| parts_of(target)) + below(&call.args),
        Expr::Select(select) => parts_of(&select.operand),
        Expr::List(list) => below(&list.elements),
        Expr::Comprehension(looped) => [
            &looped.iter_range,
            &looped.accu_init,
            &looped.loop_cond,
            &looped.loop_step,
            &looped.result,
        ]
        .into_iter()
        .map(parts_of)
        .sum(),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified => 0,
    };
    below + 1
}
