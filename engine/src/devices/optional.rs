//! Rewrites what Kubernetes' evaluator has beyond the one used here: values that may be missing (`.?`, `[?]`), and domains of which a device
//! has nothing. In Kubernetes such a domain is empty and no error.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, SelectExpr};

/// The field of a device with all domains of its attributes that an expression names, also domains of which the device has nothing.
pub const ATTRIBUTES_OR_NONE: &str = "attributes or none";
/// The same for capacities.
pub const CAPACITY_OR_NONE: &str = "capacity or none";

/// What can't be rewritten, as users are told.
pub struct Unsupported(pub String);

/// A value that may be missing: the condition under which it is there, and the value.
struct Maybe {
    is_there: IdedExpr,
    value: IdedExpr,
}

/// Returns the same expression in terms that the evaluator used here knows.
pub fn put(expression: IdedExpr) -> Result<IdedExpr, Unsupported> {
    let IdedExpr { id, expr } = expression;
    let expr = match expr {
        Expr::Call(call) => return put_call(id, call),
        Expr::Select(select) if is_maybe(&select.operand) => {
            return Err(unused());
        }
        Expr::Select(select) => Expr::Select(SelectExpr {
            operand: boxed(*select.operand)?,
            ..select
        }),
        Expr::List(mut list) => {
            list.elements = each(list.elements)?;
            Expr::List(list)
        }
        Expr::Map(mut map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    entry.key = put(std::mem::take(&mut entry.key))?;
                    entry.value = put(std::mem::take(&mut entry.value))?;
                }
            }
            Expr::Map(map)
        }
        Expr::Comprehension(mut loops) => {
            for part in [
                &mut loops.iter_range,
                &mut loops.accu_init,
                &mut loops.loop_cond,
                &mut loops.loop_step,
                &mut loops.result,
            ] {
                *part = put(std::mem::take(part))?;
            }
            Expr::Comprehension(loops)
        }
        other => other,
    };
    Ok(IdedExpr { id, expr })
}

fn put_call(id: u64, mut call: CallExpr) -> Result<IdedExpr, Unsupported> {
    let of_maybe = call.target.as_ref().is_some_and(|target| is_maybe(target));
    match (&*call.func_name, of_maybe) {
        ("hasValue", true) => return Ok(maybe(take_target(&mut call)?)?.is_there),
        ("value", true) => return Ok(maybe(take_target(&mut call)?)?.value),
        ("orValue", true) => {
            let Maybe { is_there, value } = maybe(take_target(&mut call)?)?;
            let other = put(call.args.pop().ok_or_else(unused)?)?;
            return Ok(called("_?_:_", vec![is_there, value, other]));
        }
        ("_?._" | "_[?_]", _) | (_, true) => return Err(unused()),
        _ => {}
    }
    call.target = match call.target {
        Some(target) => Some(boxed(*target)?),
        None => None,
    };
    call.args = each(call.args)?;
    if call.func_name == "_[_]"
        && let Some(Expr::Select(select)) = call.args.first_mut().map(|operand| &mut operand.expr)
        && matches!(&select.operand.expr, Expr::Ident(name) if name == "device")
    {
        match &*select.field {
            "attributes" => ATTRIBUTES_OR_NONE.clone_into(&mut select.field),
            "capacity" => CAPACITY_OR_NONE.clone_into(&mut select.field),
            _ => {}
        }
    }
    Ok(ided(id, Expr::Call(call)))
}

/// Whether an expression may have no value. A field selected from such an expression may have none either.
fn is_maybe(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Call(call) => matches!(&*call.func_name, "_?._" | "_[?_]"),
        Expr::Select(select) => is_maybe(&select.operand),
        _ => false,
    }
}

fn maybe(expression: IdedExpr) -> Result<Maybe, Unsupported> {
    match expression.expr {
        Expr::Select(select) => field_of(*select.operand, &select.field),
        Expr::Call(mut call) => {
            let (Some(key), Some(operand)) = (call.args.pop(), call.args.pop()) else {
                return Err(unused());
            };
            let Some(text) = text_of(&key) else {
                return Err(Unsupported("[?] with other than a text".to_owned()));
            };
            if call.func_name == "_?._" {
                return field_of(operand, &text);
            }
            let Maybe { is_there, value } = whole(operand)?;
            // A domain of which a device has nothing is there, and empty, where it is looked up.
            let found = called("@in", vec![key.clone(), value.clone()]);
            Ok(Maybe {
                is_there: called("_&&_", vec![is_there, found]),
                value: called("_[_]", vec![value, key]),
            })
        }
        _ => Err(unused()),
    }
}

fn field_of(operand: IdedExpr, field: &str) -> Result<Maybe, Unsupported> {
    let Maybe { is_there, value } = whole(operand)?;
    let select = |test| {
        ided(
            0,
            Expr::Select(SelectExpr {
                operand: Box::new(value.clone()),
                field: field.to_owned(),
                test,
            }),
        )
    };
    Ok(Maybe {
        is_there: called("_&&_", vec![is_there, select(true)]),
        value: select(false),
    })
}

/// Rewrites an operand that may or may not be missing itself.
fn whole(operand: IdedExpr) -> Result<Maybe, Unsupported> {
    if is_maybe(&operand) {
        return maybe(operand);
    }
    Ok(Maybe {
        is_there: ided(0, Expr::Literal(LiteralValue::Boolean(true.into()))),
        value: put(operand)?,
    })
}

fn text_of(expression: &IdedExpr) -> Option<String> {
    match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner().to_owned()),
        _ => None,
    }
}

fn unused() -> Unsupported {
    Unsupported("a value that may be missing other than by orValue, value and hasValue".to_owned())
}

fn take_target(call: &mut CallExpr) -> Result<IdedExpr, Unsupported> {
    call.target.take().map(|target| *target).ok_or_else(unused)
}

fn called(function: &str, args: Vec<IdedExpr>) -> IdedExpr {
    ided(
        0,
        Expr::Call(CallExpr {
            func_name: function.to_owned(),
            target: None,
            args,
        }),
    )
}

fn ided(id: u64, expr: Expr) -> IdedExpr {
    IdedExpr { id, expr }
}

fn boxed(expression: IdedExpr) -> Result<Box<IdedExpr>, Unsupported> {
    put(expression).map(Box::new)
}

fn each(expressions: Vec<IdedExpr>) -> Result<Vec<IdedExpr>, Unsupported> {
    expressions.into_iter().map(put).collect()
}
