//! A panic ends the process, whichever task or thread it is of.
//!
//! Problem: tokio catches the panic of a task and tells it to who joins the task, and most are
//! joined by nobody. A watch that ended so would show old objects for ever, and a leader that
//! writes no status any more would look healthy.
//!
//! Wanted: what is broken does not go on in part. The process says what panicked and ends; the
//! kubelet starts it anew, and another replica leads once the lease has run out. `capstan run`
//! catches no panic on purpose: what users write is read without any.

use std::panic::PanicHookInfo;

/// The exit code of a process that a panic ended; Rust's own.
const CODE: i32 = 101;

/// From now on a panic ends the process, once it was told as before.
pub fn end_the_process() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic: &PanicHookInfo<'_>| {
        told(panic);
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("without a name");
        let place = panic.location().map(ToString::to_string);
        tracing::error!(thread, place, "a panic ends the process: {}", says(panic));
        std::process::exit(CODE);
    }));
}

fn says<'a>(panic: &'a PanicHookInfo<'_>) -> &'a str {
    let what = panic.payload();
    let text = what.downcast_ref::<&str>().copied();
    text.or_else(|| what.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    /// Set where this program runs itself to be ended.
    const ENDS: &str = "CAPSTAN_TEST_ENDS_BY_A_PANIC";

    #[test]
    fn a_panic_of_a_task_that_nobody_joins_ends_the_process() {
        if std::env::var_os(ENDS).is_some() {
            return go_on_after_a_panic();
        }
        let (_, here) = module_path!().split_once("::").expect("a module of the crate");
        let name = format!("{here}::a_panic_of_a_task_that_nobody_joins_ends_the_process");
        let mut call = Command::new(std::env::current_exe().expect("this program"));
        call.args([name.as_str(), "--exact", "--nocapture"]).env(ENDS, "yes");
        let ended = call.output().expect("it runs");
        let said = String::from_utf8_lossy(&ended.stderr);
        // A test that passes ends with 0, and so does a program without such a test.
        assert_eq!(ended.status.code(), Some(CODE), "{said}");
        assert!(said.contains("of a task"), "{said}");
    }

    /// As all of it would, if nobody saw the panic.
    fn go_on_after_a_panic() {
        end_the_process();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            tokio::spawn(async { assert!(std::env::var_os(ENDS).is_none(), "of a task") });
            tokio::time::sleep(Duration::from_secs(30)).await;
        });
    }
}
