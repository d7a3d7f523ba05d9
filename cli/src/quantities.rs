//! What Kubernetes' policies can do with quantities beyond CEL itself, as far as Cardgate's policies need it.

use cel::common::types::{CelBool, CelInt, CelString};
use cel::{DeclarationError, Env, ExecutionError, add_member_overload, add_overload};
use crds::quantity::{QuantityError, parse_units};

/// Registers `isQuantity`, `quantity`, and the comparison of quantities. A quantity stands for its whole units, rounded away
/// from zero.
pub fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    add_overload!(env, fn is_quantity: (CelString) -> CelBool)?;
    add_overload!(env, fn quantity: (CelString) -> Result<CelInt>)?;
    add_member_overload!(env, fn is_less_than: (CelInt, CelInt) -> CelBool)?;
    add_member_overload!(env, fn is_greater_than: (CelInt, CelInt) -> CelBool)?;
    Ok(())
}

fn units(text: &str) -> Result<i64, QuantityError> {
    match parse_units(text) {
        Err(QuantityError::Overflow(_)) if text.starts_with('-') => Ok(i64::MIN),
        Err(QuantityError::Overflow(_)) => Ok(i64::MAX),
        read => read,
    }
}

fn is_quantity(text: &CelString<'_>) -> CelBool {
    units(text.inner()).is_ok().into()
}

fn quantity(text: &CelString<'_>) -> Result<CelInt, ExecutionError> {
    let units = units(text.inner()).map_err(|error| ExecutionError::function_error("quantity", error))?;
    Ok(units.into())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as functions of CEL are called")]
fn is_less_than(this: &CelInt, other: &CelInt) -> CelBool {
    (this.inner() < other.inner()).into()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as functions of CEL are called")]
fn is_greater_than(this: &CelInt, other: &CelInt) -> CelBool {
    (this.inner() > other.inner()).into()
}
