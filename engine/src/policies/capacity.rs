//! The capacity documents: what a queue may have, what it deserves, and what is kept free for it, dimension by dimension.
//!
//! Everything here is about one dimension at a time, a Kubernetes resource or a card. Both are counted alike, so cards get `deserved`,
//! `guarantee` and parents by the same rules (the Capacity Card document's **Future Work**).

/// Returns the most that a queue may have of a dimension (**Key design**: `realCapability`): its capability, but no more than what
/// `available` leaves beside what is kept free for its siblings. That is never less than the queue's own guarantee, even where more is
/// guaranteed to all queues than there is at the moment.
///
/// `available` is what its parent may have, or what the cluster has; none where nothing limits it.
pub fn real_capability(
    capability: Option<i128>,
    available: Option<i128>,
    siblings_guarantee: i128,
    guarantee: i128,
) -> Option<i128> {
    let left = available.map(|available| (available - siblings_guarantee).max(guarantee).max(0));
    match (capability, left) {
        (Some(capability), Some(left)) => Some(capability.min(left)),
        (capability, left) => capability.or(left),
    }
}

/// Returns what a queue deserves of a dimension (**Dynamic resource calculation**, and docs/rules.md, **Queues**):
/// `min(realCapability, max(guarantee, deserved))` where its spec says what it deserves, and
/// `min(realCapability, max(guarantee, request))` where not.
pub fn deserved(real_capability: Option<i128>, guarantee: i128, spec: Option<i128>, request: i128) -> i128 {
    let wanted = spec.unwrap_or(request).max(guarantee);
    real_capability.map_or(wanted, |real_capability| wanted.min(real_capability))
}

/// Returns what must not be given to other queues because of a queue: what it uses, or its guarantee if that is more.
pub fn held(used: i128, guarantee: i128) -> i128 {
    used.max(guarantee)
}

/// Whether more than `threshold` percent of a dimension are in use (section 4, `guaranteeThreshold`). False where both are zero.
pub(crate) fn is_above_threshold(used: i128, total: i128, threshold: u32) -> bool {
    used.saturating_mul(100) > total.saturating_mul(i128::from(threshold))
}

/// A queue, one of its ancestors, or the cluster, in one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// What the pods of the queue and of all queues below it have.
    pub allocated: i128,
    /// What the queue's own pods have, plus what its children hold.
    pub used: i128,
    /// What is kept free for the queue.
    pub guarantee: i128,
    /// The most that the queue may have; none where nothing limits it.
    pub limit: Option<i128>,
}

/// **Resource check logic**: checks whether a queue, and every level above it, has room for `asked`. The levels lead from the queue to the
/// cluster. The error is the first level without room, with its place in the sequence. In that level, what is kept free for the asking
/// queue, and not for others, does not count as used.
///
/// What a queue uses within its guarantee was kept free for it already, so it takes nothing from the levels above. There, only the hard
/// limits on what is really allocated apply.
pub fn check(levels: impl IntoIterator<Item = Level>, asked: i128) -> Result<(), (usize, Level)> {
    let (mut grows, mut kept) = (asked, 0);
    for (place, level) in levels.into_iter().enumerate() {
        let has_room = level
            .limit
            .is_none_or(|limit| level.allocated + asked <= limit && (grows <= 0 || level.used + grows <= limit));
        if asked > 0 && !has_room {
            let used = level.used - kept;
            return Err((place, Level { used, ..level }));
        }
        kept += (level.guarantee - level.used).max(0);
        grows = held(level.used + grows, level.guarantee) - held(level.used, level.guarantee);
    }
    Ok(())
}

/// Returns how much a queue can still get, by [`check`]; what is kept free for the queue in the levels above counts as free. Negative where
/// the queue has more than it may have; none where nothing limits it.
pub fn free(levels: impl IntoIterator<Item = Level>) -> Option<i128> {
    let mut kept = 0;
    let free = levels.into_iter().filter_map(|level| {
        let free = level.limit.map(|limit| {
            let left = limit - level.allocated;
            left.min(kept + (limit - level.used).max(0))
        });
        kept += (level.guarantee - level.used).max(0);
        free
    });
    free.min()
}

#[cfg(test)]
mod tests;
