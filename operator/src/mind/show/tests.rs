use super::super::TICK;
use super::super::tests::mind;
use super::*;

/// Returns how many are told something in each of `ticks` ticks. Before each tick, `evictions` evictions begin and are answered at once.
async fn told(mind: &mut Mind, ticks: usize, evictions: usize) -> Vec<usize> {
    let mut told = Vec::new();
    for _ in 0..ticks {
        for _ in 0..evictions {
            mind.evicting_since.get_or_insert_with(Instant::now);
        }
        told.push(mind.told_in_this_tick());
        tokio::time::advance(TICK).await;
    }
    told
}

#[tokio::test(start_paused = true)]
async fn nobody_is_kept_from_news_for_ever_by_evictions_one_after_the_other() {
    let (mut mind, ..) = mind();
    let ticks = usize::try_from(SILENCE.as_millis() / TICK.as_millis()).unwrap();
    for _ in 0..2 {
        assert_eq!(told(&mut mind, ticks, 1).await, vec![0; ticks]);
        assert_eq!(told(&mut mind, 2 * ticks, 1).await, vec![TOLD_PER_TICK; 2 * ticks]);
        // After a rest, the next evictions are awaited anew.
        assert_eq!(told(&mut mind, 1, 0).await, [TOLD_PER_TICK]);
    }
}

/// An eviction whose answer takes its time is not waited for any longer.
#[tokio::test(start_paused = true)]
async fn an_answer_is_awaited_for_two_seconds() {
    let (mut mind, ..) = mind();
    mind.evictions_under_way = 1;
    mind.evicting_since = Some(Instant::now());
    let ticks = usize::try_from(UNANSWERED.as_millis() / TICK.as_millis()).unwrap();
    assert_eq!(told(&mut mind, ticks, 0).await, vec![0; ticks]);
    assert_eq!(told(&mut mind, ticks, 1).await, vec![TOLD_PER_TICK; ticks]);
}
