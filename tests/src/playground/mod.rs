//! The playground: a cluster to look at, with commentary.
//!
//! `stage` starts the cluster and Capstan and knows when somebody wants to stop, `story` is what
//! is played, `screen` what it looks like. Everything is in the folder of the cluster, kubectl's
//! cache included, and goes with it.

mod screen;
mod stage;
mod story;

use std::env;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use crate::cluster::Trouble;

/// What the program is called by to be Capstan.
const CAPSTAN: &str = "capstan";
/// What kubectl calls it by.
const PLUGIN: &str = "kubectl-capstan";

/// Why the play ends early.
pub enum End {
    /// Somebody wants it to.
    Asked,
    /// Something failed.
    Failed(Trouble),
}

impl From<Trouble> for End {
    fn from(trouble: Trouble) -> End {
        End::Failed(trouble)
    }
}

/// Runs Capstan if the program was called by its name.
pub fn capstan_if_called() -> Option<ExitCode> {
    let called = env::args_os().next()?;
    let name = Path::new(&called).file_name()?;
    if name != CAPSTAN && name != PLUGIN {
        return None;
    }
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let code = match out.is_terminal() && err.is_terminal() && !plain {
        true => capstan::cli::run_styled(env::args_os(), &mut out, &mut err),
        false => u8::try_from(capstan::cli::run(env::args_os(), &mut out, &mut err)).unwrap_or(1),
    };
    Some(ExitCode::from(code))
}

/// Starts everything, plays, and stays until it is asked to end; then all of it is gone.
pub fn play() -> Result<(), Trouble> {
    let played = stage::Stage::set().and_then(|mut stage| {
        story::play(&mut stage)?;
        stage.stay()
    });
    match played {
        Err(End::Failed(trouble)) => Err(trouble),
        Ok(()) | Err(End::Asked) => Ok(()),
    }
}
