//! What decoded requests take in memory: close enough to count by, and never far too little.

use std::mem::size_of;
use std::sync::Arc;

use crate::description::AttributeDescription;
use crate::entry::{Attribute, Entry};
use crate::filter::ResolvedFilter;
use crate::selection::Selection;

/// Octets on the heap of a list of values.
pub fn values_held_bytes(values: &[Vec<u8>]) -> usize {
    let octets = values.iter().map(octets_held_bytes);
    size_of_val(values) + octets.sum::<usize>()
}

/// Octets on the heap of one value.
fn octets_held_bytes(value: &Vec<u8>) -> usize {
    value.capacity().next_multiple_of(ALLOCATED_BYTES)
}

impl AttributeDescription {
    /// Octets on the heap of this one: none without options, because the schema has it.
    pub fn held_bytes(self: &Arc<Self>) -> usize {
        match self.options().len() {
            0 => 0,
            count => {
                let texts = count * (size_of::<String>() + ALLOCATED_BYTES);
                size_of::<Self>() + texts + 2 * self.text().len()
            }
        }
    }
}

impl Entry {
    /// Octets on the heap of the attributes.
    pub fn held_bytes(&self) -> usize {
        let of_one = |attribute: &Attribute| {
            size_of::<Attribute>()
                + attribute.description.held_bytes()
                + values_held_bytes(&attribute.values)
        };
        self.attributes().iter().map(of_one).sum()
    }
}

impl Selection {
    /// Octets on the heap.
    pub fn held_bytes(&self) -> usize {
        let named = self.named().iter().map(AttributeDescription::held_bytes).sum::<usize>();
        size_of_val(self.named()) + named + size_of_val(self.of_classes())
    }
}

impl ResolvedFilter {
    /// Octets on the heap.
    pub fn held_bytes(&self) -> usize {
        let key = octets_held_bytes;
        match self {
            Self::And(filters) | Self::Or(filters) => {
                size_of_val(filters.as_slice())
                    + filters.iter().map(Self::held_bytes).sum::<usize>()
            }
            Self::Not(filter) => size_of::<Self>() + filter.held_bytes(),
            Self::Present(description) => description.held_bytes(),
            Self::Equality(one)
            | Self::GreaterOrEqual(one)
            | Self::LessOrEqual(one)
            | Self::Approx(one) => one.description.held_bytes() + key(&one.key),
            Self::Substrings(one) => {
                let ends = one.initial.iter().chain(&one.final_).map(key).sum::<usize>();
                one.description.held_bytes() + ends + values_held_bytes(&one.any)
            }
            Self::Extensible(one) => {
                one.description.as_ref().map_or(0, AttributeDescription::held_bytes) + key(&one.key)
            }
            Self::Undefined => 0,
        }
    }
}

/// Memory is given out in pieces of so many octets.
const ALLOCATED_BYTES: usize = 16;
