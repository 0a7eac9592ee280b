//! DeviceTaintRules: taints on devices that an administrator, or a controller, wants.
//!
//! Decides which devices a rule is for, and adds its taint to those of their slices: whoever places
//! pods sees one list of taints for a device, as kube-scheduler does. Which pods have to leave is
//! for the controller of taints.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::model::input::{DeviceFacts, SliceFacts, Taint, TaintEffect, Text};

use super::DeviceDirectory;
use crate::api::devices as api;
use crate::convert::sharing::Shared;
use crate::convert::{marks, selector};

/// A rule that keeps pods from devices.
#[derive(Debug, PartialEq)]
pub struct TaintRule {
    driver: Option<Text>,
    pool: Option<Text>,
    device: Option<Text>,
    taint: Taint,
}

impl TaintRule {
    /// What a rule says; `None`: it selects nothing, or its effect keeps nobody out (`None`, one
    /// that nobody knows).
    pub fn of(rule: &api::DeviceTaintRule, shared: &mut Shared) -> Option<TaintRule> {
        let selected = rule.spec.device_selector.as_ref()?;
        let (texts, taint) = (&mut shared.texts, &rule.spec.taint);
        let effect = selector::effect(&taint.effect)?;
        if effect == TaintEffect::PreferNoSchedule {
            return None;
        }
        let mut named = |name: &Option<String>| name.as_deref().map(|name| texts.text(name));
        let (driver, pool) = (named(&selected.driver), named(&selected.pool));
        let device = named(&selected.device);
        let (key, value) = (texts.text(&taint.key), texts.text(&taint.value));
        Some(TaintRule { driver, pool, device, taint: Taint { key, value, effect } })
    }

    /// Whether it may be for devices of a slice.
    pub fn concerns(&self, slice: &SliceFacts) -> bool {
        self.driver.as_ref().is_none_or(|driver| *driver == slice.driver)
            && self.pool.as_ref().is_none_or(|pool| *pool == slice.pool)
    }

    fn is_for(&self, device: &DeviceFacts) -> bool {
        self.device.as_ref().is_none_or(|name| *name == device.name)
    }
}

/// A slice with what rules, by name, add to the taints of its devices.
pub fn tainted(slice: &Arc<SliceFacts>, rules: &BTreeMap<Text, TaintRule>) -> Arc<SliceFacts> {
    let mut slice = slice.clone();
    for rule in rules.values() {
        let some = |slice: &SliceFacts| slice.devices.iter().any(|device| rule.is_for(device));
        if rule.concerns(&slice) && some(&slice) {
            let devices = &mut Arc::make_mut(&mut slice).devices;
            let for_it = devices.iter_mut().filter(|device| rule.is_for(device));
            for_it.for_each(|device| device.taints.push(rule.taint.clone()));
        }
    }
    slice
}

impl DeviceDirectory {
    /// A rule exists or changed.
    pub(super) fn put_taint_rule(&mut self, rule: &api::DeviceTaintRule, shared: &mut Shared) {
        let name = marks::name(&rule.metadata).into();
        self.change_taint_rule(&name, TaintRule::of(rule, shared));
    }

    /// Devices that a rule was for, or is for now, have other taints.
    pub(super) fn change_taint_rule(&mut self, name: &Text, rule: Option<TaintRule>) {
        if rule.is_some() && self.taint_rules.get(name) == rule.as_ref() {
            return;
        }
        let old = self.taint_rules.remove(name);
        for rule in old.iter().chain(&rule) {
            let slices = self.slices.values().filter(|slice| rule.concerns(slice));
            self.dirty.slices.extend(slices.map(|slice| slice.name.clone()));
        }
        self.taint_rules.extend(rule.map(|rule| (name.clone(), rule)));
    }
}
