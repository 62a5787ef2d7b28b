//! Values of a ReferenceGrant.

use super::{Check, Mistake, Mistakes};
use crate::api::ReferenceGrant;

impl Check for ReferenceGrant {
    fn mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = Mistakes::default();
        mistakes.count("spec.from", self.spec.from.len(), 1..=16, "entries");
        for (i, from) in self.spec.from.iter().enumerate() {
            mistakes.label(format!("spec.from[{i}].namespace"), &from.namespace);
        }
        mistakes.count("spec.to", self.spec.to.len(), 1..=16, "entries");
        for (i, to) in self.spec.to.iter().enumerate() {
            if let Some(name) = &to.name {
                mistakes.subdomain(format!("spec.to[{i}].name"), name);
            }
        }
        mistakes.0
    }
}
