//! Small choices out of what the fuzzer gives.

use std::ops::Bound;

use bolero::Driver;

/// A number below `end`, and 0 where there is none.
pub fn below<D: Driver>(driver: &mut D, end: usize) -> Option<usize> {
    if end <= 1 {
        return Some(0);
    }
    driver.gen_usize(Bound::Included(&0), Bound::Excluded(&end))
}

/// One of several; none where there are none.
pub fn one_of<'a, D: Driver, T>(driver: &mut D, all: &'a [T]) -> Option<&'a T> {
    let index = below(driver, all.len())?;
    all.get(index)
}

/// Once in so many times.
pub fn once_in<D: Driver>(driver: &mut D, times: usize) -> Option<bool> {
    Some(below(driver, times)? == 0)
}
