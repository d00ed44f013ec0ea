//! `roster cluster recover`: what is left of a cluster that has lost its majority goes on as a new
//! one.
//!
//! Invariant: without `--force` nothing is changed.

use std::path::PathBuf;

use clap::Args;
use cluster::transport::Authority;
use cluster::{CHOSEN_MAX, KnownMember};
use environment::{Clock as _, SystemClock};
use history::recovery::{self, Holdings};
use offline::backup::Moment;
use server::Settings;

use crate::cluster_setup::NewMember;
use crate::failure::{Exit, Failure};
use crate::location::{DATA_DEFAULT, DATA_VARIABLE};
use crate::output;
use crate::serving::environment;
use crate::settings_file;

/// Make a new cluster of one of the members of a cluster that has lost its majority.
///
/// Without --force it only says what this member has, and what may be lost: run it on every member
/// that is left, and go on with the one whose last entry is of the highest term, and among those
/// has the highest number. The others are of no more use: make them anew with 'roster cluster
/// token' and 'roster cluster join', and never start them again as they are.
#[derive(Args, Debug)]
pub(super) struct Recover {
    /// The data directory of a member that is stopped
    #[arg(short, long, value_name = "DIR", env = DATA_VARIABLE, default_value = DATA_DEFAULT,
        hide_env_values = true)]
    data: PathBuf,

    /// Do it
    #[arg(long)]
    force: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn recover(options: &Recover) -> Result<Exit, Failure> {
    if options.data.join(history::QUARANTINE_FILE).exists() {
        let what = "this member is in quarantine: its data are not those of the cluster";
        return Err(Failure::local(what).hint("go on with another member"));
    }
    if crate::joining::is_waiting(&options.data) {
        let what = "this machine has never got all of the data: it was about to join";
        return Err(Failure::local(what).hint("go on with another member"));
    }
    let own = [("server.data", options.data.display().to_string())];
    let settings = Settings::load(None, environment(), &own)?;
    let holdings = recovery::holdings(&options.data)?;
    let report = Report::new(&settings, holdings)?;
    if !options.force {
        report.show(options.json, false)?;
        output::note(format_args!(
            "roster: nothing was changed; compare this with the other members that are left, and \
             go on with the one whose last entry has the highest term, then the highest number: \
             run this there again with --force"
        ));
        return Ok(Exit::Refused);
    }
    let clock = SystemClock::new();
    let folder = options.data.join(&settings.cluster.certificates);
    let (_, aside) = recovery::leave_cluster(&options.data, |_, id| {
        let issuer = Authority::new(id, clock.now())?;
        issuer.write(&folder)?;
        issuer.issue(report.member.id, clock.now())?.write(&folder)?;
        settings_file::be_the_only_member(&options.data, &report.member)
    })?;
    report.show(options.json, true)?;
    if let Some(aside) = aside {
        output::note(format_args!(
            "roster: the journal of the old cluster is in {}, which you may delete",
            aside.display()
        ));
    }
    Ok(Exit::Done)
}

/// What a member has, and who it is and will be.
struct Report {
    holdings: Holdings,
    was: u64,
    member: NewMember,
    others: Vec<(u64, KnownMember)>,
}

impl Report {
    fn new(settings: &Settings, holdings: Holdings) -> Result<Self, Failure> {
        let was = settings.cluster.id;
        let mut members =
            cluster::known_members(&holdings.membership, holdings.membership_entry.as_deref())
                .map_err(Failure::local)?;
        let own = members.remove(&was).ok_or_else(|| {
            Failure::local(format!("the settings say that this is member {was}, and there is none"))
                .hint("is cluster.id in roster.toml of the data directory as it was?")
        })?;
        // A number that was given by the log would be taken for one of the old log.
        let id = if was <= CHOSEN_MAX { was } else { 1 };
        let member = NewMember {
            id,
            address: own.node.address,
            url: own.node.url,
            data: PathBuf::new(),
            listen: Vec::new(),
            more: String::new(),
        };
        Ok(Self { holdings, was, member, others: members.into_iter().collect() })
    }

    fn show(&self, is_json: bool, is_done: bool) -> Result<(), Failure> {
        let Holdings { committed, last, time_us, end, damage, .. } = &self.holdings;
        let time = Moment::from_micros(*time_us);
        let others: Vec<u64> = self.others.iter().map(|(id, _)| *id).collect();
        if is_json {
            return output::json(&serde_json::json!({
                "member": self.was,
                "others": others,
                "last_lsn": last.0,
                "last_time": time.to_string(),
                "last_entry": { "term": end.term, "index": end.index },
                "committed_lsn": committed.0,
                "damage": damage,
                "is_recovered": is_done,
                "new_member": is_done.then_some(self.member.id),
            }));
        }
        let (was, last, committed) = (self.was, last.0, committed.0);
        output::line(format_args!("member {was} of the cluster has"))?;
        output::line(format_args!("  last change   {last}, of {time}"))?;
        output::line(format_args!("  last entry    term {}, number {}", end.term, end.index))?;
        let doubtful = match last - committed {
            0 => String::new(),
            more => format!("; the {more} after it may never have been acknowledged, and are kept"),
        };
        output::line(format_args!("  acknowledged  up to change {committed} for sure{doubtful}"))?;
        if let Some(damage) = damage {
            output::line(format_args!("  lost          what follows in its journal: {damage}"))?;
        }
        for (id, KnownMember { node, is_voter }) in &self.others {
            let part = if *is_voter { "voter" } else { "learner" };
            output::line(format_args!("  other member  {id}, {part}, {}", node.address))?;
        }
        output::line(format_args!(
            "what may be lost: changes after {last} that were acknowledged by the other voters, \
             since {time}"
        ))?;
        if is_done {
            let id = self.member.id;
            output::line(format_args!(
                "\nIt is member {id} of a new cluster now, and the only one. Start it, and make a \
                 token for each machine that is to join:\n  roster serve --data DIR\n  roster \
                 cluster token -H {} -Z -W\nNever start the other members of the old cluster \
                 again: delete their data directories, and let the machines join.",
                self.member.url
            ))?;
        }
        Ok(())
    }
}
