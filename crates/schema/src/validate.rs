//! Does an entry obey the schema? Structure, attributes, syntaxes, RDN.
