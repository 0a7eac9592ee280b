//! Compares what a command answered with what a header expects of it.
//!
//! The three lists of a simulation (admitted, pending, preempted) are compared whole: what the
//! header does not name must not be there. All else is compared where it is named. The shape of
//! the JSON (the fields that tools rely on) is checked on every answer.

use serde_json::Value;

use super::Printed;
use super::header::{Expected, Run};

/// An answer to one command, next to what was expected.
pub struct Answer<'a> {
    /// What was printed.
    pub printed: Printed,
    run: &'a Run,
    json: Value,
}

impl<'a> Answer<'a> {
    /// Reads the answer; text that is no JSON becomes null and is complained about.
    pub fn new(run: &'a Run, printed: Printed) -> Answer<'a> {
        let json = serde_json::from_str(&printed.out).unwrap_or(Value::Null);
        Answer { printed, run, json }
    }

    /// Everything that is not as expected; empty when all is well.
    pub fn complaints(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.printed.code != self.run.exit() {
            let (want, have) = (self.run.exit(), self.printed.code);
            wrong.push(format!("exit {have}, want {want}; stderr: {}", self.printed.err));
        }
        if self.printed.code != 2 && self.run.is_simulate() {
            wrong.extend(shape(&self.json));
            wrong.extend(self.lists());
        }
        for (line, expected) in &self.run.expected {
            if let Err(message) = self.one(expected) {
                wrong.push(format!("line {line}: {message}"));
            }
        }
        wrong
    }

    /// The three lists, whole.
    fn lists(&self) -> Vec<String> {
        let (mut admitted, mut pending, mut preempted) = (Vec::new(), Vec::new(), Vec::new());
        for (_, expected) in &self.run.expected {
            match expected {
                Expected::Admitted(names) => admitted.extend(names.clone()),
                Expected::Pending(name, ..) => pending.push(name.clone()),
                Expected::Preempted(name, ..) => preempted.push(name.clone()),
                _ => {}
            }
        }
        let names = |list: &str| -> Vec<String> {
            let entries = self.json[list].as_array().cloned().unwrap_or_default();
            let name = |e: &Value| e.as_str().or(e["name"].as_str()).unwrap_or("?").to_owned();
            entries.iter().map(name).collect()
        };
        let mut wrong = Vec::new();
        for (list, want) in [("admitted", admitted), ("pending", pending), ("preempted", preempted)]
        {
            let (mut want, mut have) = (want, names(list));
            want.sort();
            have.sort();
            if want != have {
                let why = if list == "admitted" { self.messages() } else { String::new() };
                wrong.push(format!("{list}: have {have:?}, want {want:?}{why}"));
            }
        }
        wrong
    }

    /// The reasons given, for a failure that someone has to understand.
    fn messages(&self) -> String {
        let workloads = self.json["workloads"].as_array().cloned().unwrap_or_default();
        let line = |w: &Value| {
            let text = w["message"].as_str()?;
            Some(format!("\n    {} says: {text}", w["name"].as_str().unwrap_or("?")))
        };
        workloads.iter().filter_map(line).collect()
    }

    fn one(&self, expected: &Expected) -> Result<(), String> {
        match expected {
            // Compared elsewhere: with the lists, and on the text output.
            Expected::Exit(_) | Expected::Admitted(_) | Expected::Text(_) => Ok(()),
            Expected::Pending(name, code, fragments) => {
                let workload = self.workload(name)?;
                same("reason", &workload["reason"], code)?;
                let message = workload["message"].as_str().unwrap_or_default();
                all_in(message, fragments).map_err(|e| format!("message of {name}: {e}"))
            }
            Expected::Preempted(victim, preemptor, reason) => {
                let all = self.json["preempted"].as_array().cloned().unwrap_or_default();
                let of = all.iter().filter(|entry| entry["name"] == victim.as_str());
                let told = of.map(|entry| {
                    same("preemptor", &entry["by"], preemptor)?;
                    same("reason", &entry["reason"], reason)
                });
                // Of one that was stopped several times, any of these.
                let told = told.collect::<Vec<_>>();
                match told.contains(&Ok(())) {
                    true => Ok(()),
                    false => {
                        told.into_iter().next().unwrap_or(Err(format!("{victim} is not preempted")))
                    }
                }
            }
            Expected::Error(fragments) => {
                let fits = |line: &str| fragments.iter().all(|f| line.contains(f.as_str()));
                match self.printed.err.lines().any(fits) {
                    true => Ok(()),
                    false => Err(format!("no line with {fragments:?} in:\n{}", self.printed.err)),
                }
            }
            Expected::Json(pointer, value) => {
                let have = self.json.pointer(pointer).unwrap_or(&Value::Null);
                let want = serde_json::from_str(value).unwrap_or(Value::String(value.clone()));
                match equal(have, &want) {
                    true => Ok(()),
                    false => Err(format!("{pointer} is {have}, want {want}")),
                }
            }
            Expected::Feasible(_)
            | Expected::Refused(..)
            | Expected::Better(..)
            | Expected::Term(..) => self.about_nodes(expected),
            Expected::Flavor(..)
            | Expected::Nodes(..)
            | Expected::State(..)
            | Expected::Borrowed(..) => self.about_workload(expected),
        }
    }

    fn about_workload(&self, expected: &Expected) -> Result<(), String> {
        match expected {
            Expected::Flavor(name, pairs) => {
                let sets = self.workload(name)?["flavors"].as_object().cloned().unwrap_or_default();
                for (resource, flavor) in pairs {
                    let held = |set: &Value| set[resource.as_str()] == flavor.as_str();
                    if !sets.values().any(held) {
                        return Err(format!("{name} holds {sets:?}, want {resource}={flavor}"));
                    }
                }
                Ok(())
            }
            Expected::Nodes(name, want) => {
                let pods = self.workload(name)?["pods"].as_array().cloned().unwrap_or_default();
                let node = |pod: &Value| pod["node"].as_str().map(str::to_owned);
                let mut have: Vec<String> = pods.iter().filter_map(node).collect();
                have.sort();
                let (have, want) = (have.join(" "), want.join(" "));
                same_text(&format!("nodes of {name}"), &have, &want)
            }
            Expected::State(name, want) => same("state", &self.workload(name)?["state"], want),
            Expected::Borrowed(name, want) => {
                let have = &self.workload(name)?["borrowed"];
                same_text(&format!("borrowed of {name}"), &have.to_string(), &want.to_string())
            }
            _ => unreachable!("only what is about a workload comes here"),
        }
    }

    fn about_nodes(&self, expected: &Expected) -> Result<(), String> {
        match expected {
            Expected::Feasible(want) => {
                let list = self.json["feasible"].as_array().cloned().unwrap_or_default();
                let mut have: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
                have.sort_unstable();
                same_text("feasible", &have.join(" "), &want.join(" "))
            }
            Expected::Refused(name, fragments) => {
                let node = self.node(name)?;
                if node["feasible"] != false {
                    return Err(format!("{name} does not refuse"));
                }
                let reasons = node["reasons"].as_array().cloned().unwrap_or_default();
                let words: Vec<&str> = reasons.iter().filter_map(Value::as_str).collect();
                all_in(&words.join("; "), fragments).map_err(|e| format!("{name}: {e}"))
            }
            Expected::Better(more, less) => self.higher("/score/total", more, less),
            Expected::Term(term, more, less) => {
                self.higher(&format!("/score/terms/{term}"), more, less)
            }
            _ => unreachable!("only what is about nodes comes here"),
        }
    }

    fn higher(&self, pointer: &str, more: &str, less: &str) -> Result<(), String> {
        let value = |name: &str| {
            let found = self.node(name)?.pointer(pointer).and_then(Value::as_i64);
            found.ok_or(format!("{name} has no {pointer}"))
        };
        let (high, low) = (value(more)?, value(less)?);
        if high > low {
            return Ok(());
        }
        Err(format!("{pointer}: {more} has {high}, {less} has {low}; want the first higher"))
    }

    fn workload(&self, name: &str) -> Result<&Value, String> {
        let all = self.json["workloads"].as_array();
        let found = all.and_then(|all| all.iter().find(|w| w["name"] == name));
        found.ok_or(format!("no workload {name}"))
    }

    fn node(&self, name: &str) -> Result<&Value, String> {
        let all = self.json["nodes"].as_array();
        let found = all.and_then(|all| all.iter().find(|n| n["name"] == name));
        found.ok_or(format!("no node {name}"))
    }
}

/// The fields that tools rely on; they only grow.
fn shape(json: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut want = |right: bool, what: &str| {
        if !right {
            wrong.push(format!("JSON: {what}"));
        }
    };
    want(json["cycles"].is_u64(), "cycles is no count");
    for list in ["workloads", "admitted", "pending", "preempted"] {
        want(json[list].is_array(), &format!("{list} is no list"));
    }
    for field in ["gpus", "gpusAllocated", "usdPerHour"] {
        want(json["summary"][field].is_number(), &format!("summary.{field} is no number"));
    }
    let states = ["Pending", "Admitted", "Running", "Preempted", "Finished"];
    for workload in json["workloads"].as_array().into_iter().flatten() {
        let name = workload["name"].as_str().unwrap_or_default();
        want(name.contains('/'), &format!("workload name {name:?} is not namespace/name"));
        let state = workload["state"].as_str().unwrap_or_default();
        want(states.contains(&state), &format!("state {state:?} of {name}"));
        want(workload["borrowed"].is_boolean(), &format!("borrowed of {name} is no boolean"));
        want(workload["flavors"].is_object(), &format!("flavors of {name} is no object"));
        want(workload["pods"].is_array(), &format!("pods of {name} is no list"));
        if state == "Pending" {
            let said = |field: &str| workload[field].as_str().is_some_and(|s| !s.is_empty());
            want(said("reason") && said("message"), &format!("{name} waits without a reason"));
        }
    }
    wrong
}

/// Equal as JSON; numbers by value, so that 0 and 0.0 are one.
fn equal(have: &Value, want: &Value) -> bool {
    match (have.as_f64(), want.as_f64()) {
        (Some(have), Some(want)) => have == want,
        _ => have == want,
    }
}

fn same(what: &str, have: &Value, want: &str) -> Result<(), String> {
    let have = have.as_str().unwrap_or("-");
    if want == "*" { Ok(()) } else { same_text(what, have, want) }
}

fn same_text(what: &str, have: &str, want: &str) -> Result<(), String> {
    if have == want { Ok(()) } else { Err(format!("{what} is {have:?}, want {want:?}")) }
}

fn all_in(text: &str, fragments: &[String]) -> Result<(), String> {
    match fragments.iter().find(|fragment| !text.contains(fragment.as_str())) {
        Some(missing) => Err(format!("no {missing:?} in {text:?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::Header;
    use super::*;

    const ANSWER: &str = r#"{"cycles":1,"workloads":[
        {"name":"t/a","state":"Admitted","flavors":{"main":{"cpu":"spot"}},"borrowed":true,
         "pods":[{"name":"t/a-1","node":"n2"},{"name":"t/a-0","node":"n1"}]},
        {"name":"t/b","state":"Pending","flavors":{},"borrowed":false,"pods":[],
         "reason":"WaitingForQuota","message":"3 cpu asked, 2 left"}],
        "admitted":["t/a"],"pending":["t/b"],
        "preempted":[{"name":"t/v","by":"t/a","reason":"InClusterQueue"}],
        "summary":{"gpus":0,"gpusAllocated":0,"usdPerHour":0.0}}"#;

    fn complaints(json: &str, expectations: &str) -> Vec<String> {
        let source = format!("# $ simulate THIS\n{expectations}\n");
        let header = Header::parse(&source).expect("the test's header parses");
        let printed = Printed { code: 0, out: json.into(), err: String::new() };
        Answer::new(&header.runs[0], printed).complaints()
    }

    #[test]
    fn an_answer_as_expected_passes() {
        let expectations = concat!(
            "# => admitted t/a\n# => pending t/b WaitingForQuota \"2 left\"\n",
            "# => preempted t/v by t/a InClusterQueue\n# => flavor t/a cpu=spot\n",
            "# => nodes t/a n2 n1\n# => borrowed t/a\n# => json /cycles 1",
        );
        assert_eq!(complaints(ANSWER, expectations), Vec::<String>::new());
    }

    #[test]
    fn every_kind_of_difference_is_found() {
        let right = "# => admitted t/a\n# => pending t/b\n# => preempted t/v by t/a\n";
        for wrong in [
            "# => flavor t/a cpu=other",
            "# => nodes t/a n1",
            "# => own t/a",
            "# => state t/a Pending",
            "# => json /cycles 2",
            "# => error anything",
            "# => exit 1",
        ] {
            assert_eq!(complaints(ANSWER, &format!("{right}{wrong}")).len(), 1, "{wrong}");
        }
        for (list, count) in [
            ("# => pending t/b\n# => preempted t/v by t/a", 1),
            ("# => admitted t/a\n# => pending t/b Misconfigured\n# => preempted t/v by t/b", 2),
            ("# => admitted t/a\n# => pending t/b * \"9 left\"\n# => preempted t/v by t/a X", 2),
        ] {
            assert_eq!(complaints(ANSWER, list).len(), count, "{list}");
        }
    }

    #[test]
    fn a_missing_field_of_the_contract_is_found() {
        let right = "# => admitted t/a\n# => pending t/b\n# => preempted t/v by t/a";
        let without = ANSWER.replace("\"gpusAllocated\":0,", "");
        assert_eq!(complaints(&without, right), ["JSON: summary.gpusAllocated is no number"]);
        let silent = ANSWER.replace("\"message\":\"3 cpu asked, 2 left\"", "\"message\":\"\"");
        assert_eq!(complaints(&silent, right), ["JSON: t/b waits without a reason"]);
    }
}
