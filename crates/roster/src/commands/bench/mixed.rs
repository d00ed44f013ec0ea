//! Several kinds of operation at the same time.

use clap::{Args, ValueEnum};

use super::common::{Common, Defaults};
use super::jobs::{CONNECTIONS, count};
use crate::bench::jobs::{self, BindOver, MODIFIED, MODIFIED_VALUE, Mix, MixBy, Searched};
use crate::bench::keys::Order;
use crate::bench::plan::{Job, Stream};
use crate::bench::request::ScopeName;
use crate::failure::{Exit, Failure};

/// Mix several kinds of operation.
///
/// The mix is of clients, each of which does one kind of operation as often as it can; or of
/// requests, where each connection draws what it does next. Binds go over connections of their own
/// in both.
#[derive(Args, Debug)]
pub(super) struct Mixed {
    #[command(flatten)]
    common: Common,

    /// The kinds of operation with their shares: search, auth, bind, compare, modify, add, delete.
    /// A delete deletes what an add of the run has added
    #[arg(long, value_name = "NAME=SHARE,...", default_value = "search=65,bind=30,modify=5",
        value_parser = mix)]
    mix: Shares,

    /// What the shares are of
    #[arg(long, value_enum, default_value_t = MixBy::Requests)]
    mix_by: MixBy,

    /// The base entry of searches; may hold values. The suffix without
    #[arg(short, long, value_name = "DN")]
    base: Option<String>,

    /// How far to search
    #[arg(short, long, value_enum, default_value_t = ScopeName::Sub)]
    scope: ScopeName,

    /// The filter; may hold values. (uid=user.[1-100000]) without
    #[arg(short, long, value_name = "FILTER")]
    filter: Option<String>,

    /// How many entries each search must find: 1, 0-5 or 3- (3 or more)
    #[arg(long, value_name = "COUNT", default_value = "1-", value_parser = count)]
    expect: (u64, u64),

    /// The entries that binds, compares and modifies name; may hold values
    #[arg(long, value_name = "DN")]
    dn: Option<String>,

    /// The password of binds; may hold values
    #[arg(
        id = "entry_password",
        long = "password",
        value_name = "PASSWORD",
        default_value = "password"
    )]
    password: String,

    /// The attribute that is modified
    #[arg(short, long, value_name = "ATTRIBUTE", default_value = MODIFIED)]
    attribute: String,

    /// Its new value; may hold values
    #[arg(long, value_name = "VALUE", default_value = MODIFIED_VALUE)]
    value: String,

    /// The attribute that is compared
    #[arg(long, value_name = "ATTRIBUTE", default_value = "employeeNumber")]
    compare_attribute: String,

    /// The value it is compared with; may hold values
    #[arg(long, value_name = "VALUE", default_value = "[1]")]
    compare_value: String,

    /// Entries of the people template that adds pass over, usually because they exist; 1000000, or
    /// --entries if that is more
    #[arg(long, value_name = "N")]
    first: Option<u64>,

    /// Delete at the end what was added
    #[arg(long)]
    remove: bool,

    /// How values follow each other
    #[arg(long, value_enum, default_value_t = Order::Random)]
    order: Order,

    /// The attributes that searches ask for; all user attributes without
    #[arg(value_name = "ATTRIBUTE")]
    attributes: Vec<String>,
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
            let stream = Stream { removes: self.remove && stream.adds(), ..stream };
            self.common.applied(stream, connections)
        };
        let streams = streams.into_iter().map(apply).collect();
        self.common.run(&self.common.plan("mixed", streams, Defaults::default()))
    }

    fn job(&self, kind: Kind) -> Result<Job, Failure> {
        let people = &self.common.people;
        let maker = people.maker(self.order);
        let dn = self.dn.clone().unwrap_or_else(|| people.everybody());
        let searched = || Searched {
            base: self.base.clone().unwrap_or_else(|| people.suffix.clone()),
            scope: self.scope,
            filter: self
                .filter
                .clone()
                .unwrap_or_else(|| format!("(uid=user.[1-{}])", people.entries)),
            attributes: self.attributes.clone(),
            expect: self.expect,
        };
        match kind {
            Kind::Search => maker.search(&searched()),
            Kind::Auth => maker.auth(
                &Searched { expect: (1, 1), ..searched() },
                &self.password,
                BindOver::Second,
            ),
            Kind::Bind => maker.bind(&dn, &self.password, self.mix_by == MixBy::Requests),
            Kind::Compare => {
                maker.compare(&dn, (&self.compare_attribute, &self.compare_value), true)
            }
            Kind::Modify => maker.modify(&dn, (&self.attribute, &self.value)),
            Kind::Add => {
                let first = self.first.unwrap_or_else(|| people.first());
                Ok(jobs::add(jobs::people(&people.suffix, first)))
            }
            Kind::Delete => Ok(jobs::delete_added()),
        }
    }
}

/// `search=65,bind=30`.
fn mix(text: &str) -> Result<Shares, String> {
    let part = |part: &str| {
        let (name, share) = part.split_once('=').ok_or("write it as search=65,bind=30")?;
        let kind = Kind::from_str(name.trim(), true)
            .map_err(|_| format!("'{name}' is no kind of operation that can be mixed"))?;
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
