//! The rules in force: who may do what, what passwords have to be like, and what connections may
//! ask for.

use std::sync::Arc;

use crate::access::view_rules::ViewRulesInForce;
use crate::assignment::text::Assignment;
use crate::constraint::text::Constraint;
use crate::enforcement::modes::ModeLine;
use crate::lines::in_force::InForce;
use crate::password_policy::in_force::PoliciesInForce;
use crate::request::policy::Policies;
use crate::sinks::Sink;
use crate::tasks::text::ScheduledTask;
use crate::write::followed::Followed;

/// What is in force now.
pub(crate) struct RulesInForce {
    /// What entries are read by: the ACIs; what a view has is never newer.
    pub(crate) of_views: Arc<ViewRulesInForce>,
    /// The password policies; what a view has is never newer.
    pub(crate) password_policies: Arc<PoliciesInForce>,
    /// What values must be like, beyond the schema.
    pub(crate) constraints: InForce<Constraint>,
    /// What the server writes by itself.
    pub(crate) assignments: InForce<Assignment>,
    /// How strictly the schema is enforced.
    pub(crate) schema_modes: InForce<ModeLine>,
    /// What is sent where.
    pub(crate) sinks: InForce<Sink>,
    /// What is done again and again.
    pub(crate) scheduled_tasks: InForce<ScheduledTask>,
    /// Which branches follow another server.
    pub(crate) followed: InForce<Followed>,
    /// What connections may ask for.
    pub(crate) policies: Policies,
}

impl RulesInForce {
    /// These; the lines of settings are read when they are asked for.
    pub(crate) fn new(
        of_views: Arc<ViewRulesInForce>,
        password_policies: Arc<PoliciesInForce>,
        policies: Policies,
    ) -> Self {
        Self {
            of_views,
            password_policies,
            constraints: InForce::default(),
            assignments: InForce::default(),
            schema_modes: InForce::default(),
            sinks: InForce::default(),
            scheduled_tasks: InForce::default(),
            followed: InForce::default(),
            policies,
        }
    }
}
