//! Asking again until it is so, with a limit and the last answer in the error.

use std::time::Duration;

use anyhow::bail;
use tokio::time::{Instant, sleep};

/// Servers on loopback change state within milliseconds; asking more often only takes their CPU.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(25);

/// Asks until `ask` answers `Some`. `None` and errors both mean "not yet": servers that start, stop
/// or change roles answer with errors. After `limit` the error says what was awaited and the last
/// reason against it.
pub(crate) async fn until<T, F, Fut>(limit: Duration, what: &str, mut ask: F) -> anyhow::Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = anyhow::Result<Option<T>>>,
{
    let give_up_at = Instant::now() + limit;
    loop {
        let reason = match ask().await {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        if Instant::now() >= give_up_at {
            match reason {
                Some(error) => return Err(error.context(format!("waited {limit:?} for {what}"))),
                None => bail!("waited {limit:?} for {what}"),
            }
        }
        sleep(ASK_AGAIN_AFTER).await;
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[tokio::test]
    async fn an_error_is_asked_again_and_the_last_one_is_told() {
        let mut asked = 0;
        let answer = until(Duration::from_secs(1), "the third time", || {
            asked += 1;
            let count = asked;
            async move { if count < 3 { Err(anyhow!("too early")) } else { Ok(Some(count)) } }
        })
        .await
        .unwrap();
        assert_eq!(answer, 3);

        let error = until(Duration::from_millis(60), "a wonder", || async {
            Err::<Option<()>, _>(anyhow!("there are none"))
        })
        .await
        .unwrap_err();
        assert_eq!(format!("{error:#}"), "waited 60ms for a wonder: there are none");
    }
}
