//! Why a schema could not be built or changed: where, what, and what to do about it.
