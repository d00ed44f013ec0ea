//! Several kinds of operation at the same time.

use clap::{Args, ValueEnum};

use super::common::{Common, Defaults};
use super::jobs::CONNECTIONS;
use super::options::{
    AddOptions, FoundOptions, ModifyOptions, OrderOptions, PasswordOptions, SearchOptions,
    TargetOptions,
};
use crate::bench::answer::Expected;
use crate::bench::jobs::{self, BindOver, Mix, MixBy, Searched};
use crate::bench::plan::{Job, Stream};
use crate::failure::{Exit, Failure};

/// Mix several kinds of operation.
///
/// The mix is of clients, each of which repeats one kind of operation; or of requests, where each
/// connection chooses its next operation at random. Binds use connections of their own in both.
#[derive(Args, Debug)]
pub(super) struct Mixed {
    #[command(flatten)]
    common: Common,

    /// The kinds of operation with their shares: search, auth, bind, compare, modify, add, delete.
    /// A delete removes an entry that the run has added
    #[arg(long, value_name = "NAME=SHARE,...", default_value = "search=65,bind=30,modify=5",
        value_parser = mix)]
    mix: Shares,

    /// What the shares are of
    #[arg(long, value_enum, default_value_t = MixBy::Requests)]
    mix_by: MixBy,

    #[command(flatten)]
    search: SearchOptions,
    #[command(flatten)]
    found: FoundOptions,
    #[command(flatten)]
    target: TargetOptions,
    #[command(flatten)]
    order: OrderOptions,
    #[command(flatten)]
    bind: PasswordOptions,
    #[command(flatten)]
    modify: ModifyOptions,
    #[command(flatten)]
    add: AddOptions,

    /// The attribute that is compared
    #[arg(long, value_name = "ATTRIBUTE", default_value = "employeeNumber")]
    compare_attribute: String,

    /// The value it is compared with; may contain values
    #[arg(long, value_name = "VALUE", default_value = "[1]")]
    compare_value: String,
}

/// Kinds of operation and their shares.
type Shares = Vec<(Kind, u32)>;

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Kind {
    Search,
    Auth,
    Bind,
    Compare,
    Modify,
    Add,
    Delete,
}

impl Mixed {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let connections = self.common.connections_or(CONNECTIONS);
        let jobs = self.mix.iter().map(|(kind, share)| Ok((*share, self.job(*kind)?)));
        let mix = Mix { jobs: jobs.collect::<Result<_, Failure>>()?, by: self.mix_by };
        let streams = mix.streams(connections)?;
        let apply = |stream: Stream| {
            let stream = Stream { removes: self.add.remove && stream.adds(), ..stream };
            self.common.applied(stream, connections)
        };
        let streams = streams.into_iter().map(apply).collect();
        self.common.run(&self.common.plan("mixed", streams, Defaults::default()))
    }

    fn job(&self, kind: Kind) -> Result<Job, Failure> {
        let people = &self.common.people;
        let maker = self.order.maker(people);
        let dn = self.target.dn(people);
        let (one, password) = (self.search.one(people), &self.bind.password);
        match kind {
            Kind::Search => maker.search(&self.found.of(one)),
            Kind::Auth => {
                let searched = Searched { expect: Expected::Entries(1, 1), ..self.found.of(one) };
                maker.auth(&searched, password, BindOver::Second)
            }
            Kind::Bind => maker.bind(&dn, password, self.mix_by == MixBy::Requests),
            Kind::Compare => maker.compare(&dn, &self.compare_attribute, &self.compare_value, true),
            Kind::Modify => maker.modify(&dn, &self.modify.attribute, &self.modify.value),
            Kind::Add => Ok(jobs::add(jobs::people(&people.suffix, self.add.first(people)))),
            Kind::Delete => Ok(jobs::delete_added()),
        }
    }
}

/// `search=65,bind=30`.
fn mix(text: &str) -> Result<Shares, String> {
    let part = |part: &str| {
        let (name, share) = part.split_once('=').ok_or("write it as search=65,bind=30")?;
        let kind = Kind::from_str(name.trim(), true)
            .map_err(|_| format!("'{name}' is not an operation that can be mixed"))?;
        let share = share.trim().parse::<u32>().ok().filter(|share| *share > 0);
        Ok((kind, share.ok_or_else(|| format!("the share of {name} is a number above 0"))?))
    };
    let shares: Shares = text.split(',').map(part).collect::<Result<_, String>>()?;
    for (number, (kind, _)) in shares.iter().enumerate() {
        if shares.iter().take(number).any(|(other, _)| other == kind) {
            return Err(format!("'{text}' names a kind of operation twice"));
        }
    }
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_read() {
        let want = vec![(Kind::Search, 65), (Kind::Bind, 30), (Kind::Modify, 5)];
        assert_eq!(mix("search=65, bind=30,modify=5"), Ok(want));
        for wrong in ["", "search", "search=0", "search=x", "find=1", "bind=1,bind=2"] {
            assert!(mix(wrong).is_err(), "{wrong}");
        }
    }
}
