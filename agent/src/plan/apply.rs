//! What an operation does to tables: the model of the kernel maps that the agent keeps, and that
//! tests run decisions on.

use super::{Op, Retired};
use crate::compile::tables::Tables;

impl Tables {
    /// Follows an operation. Shared states, tickets and counters are not part of the model.
    pub fn follow(&mut self, op: &Op) {
        match *op {
            Op::MakeEndpointState(_) | Op::MakeBackendState(_) | Op::MakeTickets(_) => {}
            Op::PutEndpoint(key, value) => {
                self.endpoints.insert(key, value);
            }
            Op::PutRing(key, value) => {
                self.rings.insert(key, value);
            }
            Op::PutBackend(key, value) => {
                self.backends.insert(key, value);
            }
            Op::PutSplit(key, value) => {
                self.splits.insert(key, value);
            }
            Op::PutName(key, value) => {
                self.names.insert(key, value);
            }
            Op::DeleteName(key) => {
                self.names.remove(&key);
            }
            Op::PutClient(key, value) => {
                self.clients.insert(key, value);
            }
            Op::PutScoped(key, value) => {
                self.scoped.insert(key, value);
            }
            Op::PutFrontend(key, value) => {
                self.frontends.insert(key, value);
            }
            Op::DeleteFrontend(key) => {
                self.frontends.remove(&key);
            }
            Op::DeleteScoped(key) => {
                self.scoped.remove(&key);
            }
            Op::DeleteClient(key) => {
                self.clients.remove(&key);
            }
            Op::Retire(retired) => match retired {
                Retired::Split(id) => {
                    self.splits.remove(&id);
                }
                Retired::Backend(id) => {
                    self.backends.remove(&id);
                }
                Retired::Endpoint(key) => {
                    self.endpoints.remove(&key);
                }
                Retired::Ring(key) => {
                    self.rings.remove(&key);
                }
                Retired::Tickets(_)
                | Retired::BackendState(_)
                | Retired::EndpointState(_)
                | Retired::NameTable(_)
                | Retired::Stats(_) => {}
            },
        }
    }
}
