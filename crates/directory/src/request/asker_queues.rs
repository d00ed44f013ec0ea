//! Requests that wait, in a queue for each who asks: those who ask take turns.
//!
//! Invariant: whoever has a hundred requests here waits for them itself. Another's request waits
//! for one of each that came before it, and strangers are one half of those at the most.
//! Invariant: the requests of one who asks leave in the order in which they came.
//! Invariant: what waits is bounded, over all, for strangers and for each who asks; one more is
//! refused. Others never are in the way of the administrator's, and of the only one of whoever has
//! signed in. What goes on after a pause was let in before: it is never refused.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};

use rustc_hash::FxHashMap;
use schema::EntryId;

/// Who has a turn.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Asker {
    /// The administrator, and the server itself.
    Root,
    /// All sessions of an entry.
    Entry(EntryId),
    /// Strangers of one address, or of one network of those.
    Address(IpAddr),
    /// Strangers on the Unix socket.
    Local,
}

impl Asker {
    /// Whether it has not signed in.
    pub fn is_stranger(self) -> bool {
        match self {
            Self::Root | Self::Entry(_) => false,
            Self::Address(_) | Self::Local => true,
        }
    }
}

/// Whose cost it is: an IPv6 client has a network of 64 bits for itself.
pub fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(six) => match six.to_ipv4_mapped() {
            Some(four) => IpAddr::V4(four),
            None => IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() >> 64 << 64)),
        },
    }
}

/// What may wait.
#[derive(Clone, Copy, Debug)]
pub struct QueueSize {
    /// Requests, over all.
    pub max: usize,
    /// Places among them that strangers do not take.
    pub reserved: usize,
    /// Requests of one who asks; the administrator's are bounded by `max`.
    pub asker_max: usize,
}

/// The queues.
#[derive(Debug)]
pub struct AskerQueues<T> {
    signed_in: Line<T>,
    strangers: Line<T>,
    /// Whose turn it is, where both are asked for.
    is_strangers_turn: bool,
    size: QueueSize,
}

/// Some who take turns.
#[derive(Debug)]
struct Line<T> {
    /// Those who wait for something, the next one first; each once.
    order: VecDeque<Asker>,
    of: FxHashMap<Asker, Own<T>>,
    /// How many requests wait that were not let in before.
    new: usize,
}

/// What waits for one of them.
#[derive(Debug)]
struct Own<T> {
    items: VecDeque<Item<T>>,
    new: usize,
}

#[derive(Debug)]
struct Item<T> {
    item: T,
    is_new: bool,
}

impl<T> AskerQueues<T> {
    /// Nothing waits.
    pub fn new(size: QueueSize) -> Self {
        let (signed_in, strangers) = (Line::new(), Line::new());
        Self { signed_in, strangers, is_strangers_turn: false, size }
    }

    /// How many requests wait for a turn, those that go on included, and how many new ones may.
    pub fn depth(&self) -> (usize, usize) {
        let of_line = |line: &Line<T>| line.of.values().map(|own| own.items.len()).sum::<usize>();
        (of_line(&self.signed_in) + of_line(&self.strangers), self.size.max)
    }

    /// A request comes; it is given back when too many are waiting.
    ///
    /// # Errors
    /// The request.
    pub fn put(&mut self, asker: Asker, item: T) -> Result<(), T> {
        let QueueSize { max, reserved, asker_max } = self.size;
        let (all, strangers) = (self.new_count(), self.strangers.new);
        let line = self.line(asker);
        let own = line.new_count_of(asker);
        let is_full = match asker {
            Asker::Root => own >= max,
            // Whoever has nothing here yet gets in, whatever others have: turns are for all.
            Asker::Entry(_) => own >= asker_max || (all >= max && own > 0),
            Asker::Address(_) | Asker::Local => {
                own >= asker_max || all >= max || strangers >= max.saturating_sub(reserved)
            }
        };
        if is_full {
            return Err(item);
        }
        line.put(asker, item, true);
        Ok(())
    }

    /// A request comes; where too many are waiting, one who has more than this one gives up his
    /// newest, which is returned. The only one of one who asks always gets in: there are no more
    /// of those than connections.
    ///
    /// # Errors
    /// The request: nobody has more.
    pub fn put_or_displace(&mut self, asker: Asker, item: T) -> Result<Option<T>, T> {
        let Err(item) = self.put(asker, item) else { return Ok(None) };
        let asker_max = self.size.asker_max;
        let line = self.line(asker);
        let own = line.new_count_of(asker);
        if own >= asker_max {
            return Err(item);
        }
        let displaced = line.displace(own);
        if displaced.is_none() && own > 0 {
            return Err(item);
        }
        line.put(asker, item, true);
        Ok(displaced)
    }

    /// A request goes on that was taken out before: it waits for its turn, and is never refused.
    pub fn put_back(&mut self, asker: Asker, item: T) {
        self.line(asker).put(asker, item, false);
    }

    /// The oldest request of the one whose turn it is.
    pub fn take(&mut self) -> Option<T> {
        self.take_if(|_| true).map(|(_, item)| item)
    }

    /// The same among those who may have a turn, and whose it is. The others keep their places.
    pub fn take_if(&mut self, may: impl Fn(Asker) -> bool) -> Option<(Asker, T)> {
        let are_strangers_first = self.is_strangers_turn;
        self.is_strangers_turn = !are_strangers_first;
        let (first, second) = self.lines(are_strangers_first);
        first.next_if(&may).or_else(|| second.next_if(&may))
    }

    /// The same among those who may have a turn with their oldest request.
    pub fn take_fitting(&mut self, may: impl Fn(Asker, &T) -> bool) -> Option<(Asker, T)> {
        let are_strangers_first = self.is_strangers_turn;
        self.is_strangers_turn = !are_strangers_first;
        let (first, second) = self.lines(are_strangers_first);
        first.next_fitting(&may).or_else(|| second.next_fitting(&may))
    }

    /// The same among those who have signed in.
    pub fn take_signed_in_if(&mut self, may: impl Fn(Asker) -> bool) -> Option<(Asker, T)> {
        self.signed_in.next_if(may)
    }

    /// Whether any who have signed in wait but this one, and any strangers, of those who may have a
    /// turn.
    pub fn others(&self, asker: Asker, may: impl Fn(Asker) -> bool) -> (bool, bool) {
        let is_other = |one: &Asker| *one != asker && may(*one);
        let has_other = |line: &Line<T>| line.order.iter().any(is_other);
        (has_other(&self.signed_in), has_other(&self.strangers))
    }

    /// Whether anything waits of one who asks.
    pub fn waits(&self, asker: Asker) -> bool {
        let line = if asker.is_stranger() { &self.strangers } else { &self.signed_in };
        line.of.contains_key(&asker)
    }

    /// Takes out what `keep` does not want.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) -> Vec<T> {
        let mut gone = self.signed_in.retain(&keep);
        gone.extend(self.strangers.retain(&keep));
        gone
    }

    /// The same, of what one who asks has here.
    pub fn retain_of(&mut self, asker: Asker, keep: impl Fn(&T) -> bool) -> Vec<T> {
        let line = self.line(asker);
        let gone = line.of.get_mut(&asker).map(|own| own.retain(keep)).unwrap_or_default();
        line.without(gone)
    }

    fn new_count(&self) -> usize {
        self.signed_in.new + self.strangers.new
    }

    fn lines(&mut self, are_strangers_first: bool) -> (&mut Line<T>, &mut Line<T>) {
        match are_strangers_first {
            true => (&mut self.strangers, &mut self.signed_in),
            false => (&mut self.signed_in, &mut self.strangers),
        }
    }

    fn line(&mut self, asker: Asker) -> &mut Line<T> {
        if asker.is_stranger() { &mut self.strangers } else { &mut self.signed_in }
    }
}

impl<T> Own<T> {
    /// Takes out what `keep` does not want.
    fn retain(&mut self, keep: impl Fn(&T) -> bool) -> VecDeque<Item<T>> {
        if self.items.iter().all(|item| keep(&item.item)) {
            return VecDeque::new();
        }
        let (kept, gone) = self.items.drain(..).partition(|item| keep(&item.item));
        self.items = kept;
        let gone: VecDeque<Item<T>> = gone;
        self.new -= gone.iter().filter(|item| item.is_new).count();
        gone
    }
}

impl<T> Line<T> {
    fn new() -> Self {
        Self { order: VecDeque::new(), of: FxHashMap::default(), new: 0 }
    }

    fn new_count_of(&self, asker: Asker) -> usize {
        self.of.get(&asker).map_or(0, |own| own.new)
    }

    fn put(&mut self, asker: Asker, item: T, is_new: bool) {
        let own = self.of.entry(asker).or_insert_with(|| {
            self.order.push_back(asker);
            Own { items: VecDeque::new(), new: 0 }
        });
        own.items.push_back(Item { item, is_new });
        own.new += usize::from(is_new);
        self.new += usize::from(is_new);
    }

    fn retain(&mut self, keep: impl Fn(&T) -> bool) -> Vec<T> {
        let gone = self.of.values_mut().flat_map(|own| own.retain(&keep)).collect();
        self.without(gone)
    }

    /// These were taken out: who has nothing left has no turn.
    fn without(&mut self, gone: VecDeque<Item<T>>) -> Vec<T> {
        if !gone.is_empty() {
            self.new -= gone.iter().filter(|item| item.is_new).count();
            self.of.retain(|_, own| !own.items.is_empty());
            self.order.retain(|asker| self.of.contains_key(asker));
        }
        gone.into_iter().map(|item| item.item).collect()
    }

    /// Takes out the newest of the one who has most, if those are more than one of who has so many
    /// would have afterwards.
    fn displace(&mut self, own: usize) -> Option<T> {
        let most = self.of.values_mut().max_by_key(|other| other.new)?;
        if most.new <= own + 1 {
            return None;
        }
        let newest = most.items.iter().rposition(|item| item.is_new)?;
        let Item { item, .. } = most.items.remove(newest)?;
        most.new -= 1;
        self.new -= 1;
        Some(item)
    }

    /// The oldest request of the first one who may have a turn.
    fn next_if(&mut self, may: impl Fn(Asker) -> bool) -> Option<(Asker, T)> {
        let at = self.order.iter().position(|&asker| may(asker))?;
        self.take_at(at)
    }

    /// The same of those who may have a turn with it.
    fn next_fitting(&mut self, may: impl Fn(Asker, &T) -> bool) -> Option<(Asker, T)> {
        let at = self.order.iter().position(|asker| {
            let oldest = self.of.get(asker).and_then(|own| own.items.front());
            oldest.is_some_and(|oldest| may(*asker, &oldest.item))
        })?;
        self.take_at(at)
    }

    /// The oldest request of the one at this position, who goes to the end.
    fn take_at(&mut self, at: usize) -> Option<(Asker, T)> {
        let asker = self.order.remove(at)?;
        let own = self.of.get_mut(&asker)?;
        let Item { item, is_new } = own.items.pop_front()?;
        own.new -= usize::from(is_new);
        self.new -= usize::from(is_new);
        if own.items.is_empty() {
            self.of.remove(&asker);
        } else {
            self.order.push_back(asker);
        }
        Some((asker, item))
    }
}
