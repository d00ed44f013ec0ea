//! Values of every syntax: short ones that resemble each other, some longer than a key may be, some
//! that no rule can prepare.

use super::dice::Dice;

/// Some values for an attribute of this syntax.
pub fn pool(syntax: &str, dice: &mut Dice) -> Vec<Vec<u8>> {
    let count = dice.between(3, 12);
    let mut pool: Vec<Vec<u8>> = (0..count).map(|_| value(syntax, dice)).collect();
    if dice.one_in(3) {
        let other = *dice.pick(&SYNTAXES);
        pool.push(value(other, dice));
    }
    if dice.one_in(3) {
        // Alike for longer than a key may be.
        let start = "v".repeat(dice.between(195, 225));
        for end in ["", "w", "wx", "x"].iter().take(dice.between(1, 4)) {
            pool.push(format!("{start}{end}").into_bytes());
        }
    }
    // The first ones are taken most often.
    let first = dice.below(pool.len());
    pool.rotate_left(first);
    pool
}

/// The last part of a syntax's OID says enough.
fn value(syntax: &str, dice: &mut Dice) -> Vec<u8> {
    let number = syntax.strip_prefix("1.3.6.1.4.1.1466.115.121.1.");
    let of = |list: &[&str], dice: &mut Dice| dice.pick(list).as_bytes().to_vec();
    match number.unwrap_or(syntax) {
        "6" => of(&["'0101'B", "'0'B", "''B", "'01'B", "0101"], dice),
        "7" => of(&["TRUE", "FALSE", "true"], dice),
        "8" | "9" | "10" | "49" => dice.pick(&[&b"0\x03\x02\x01\x05"[..], b"0\0", b"x"]).to_vec(),
        "11" => of(&["DE", "de", "US"], dice),
        "12" => of(&NAMES, dice),
        "24" => of(&TIMES, dice),
        "27" => integer(dice),
        "30" | "3" | "31" | "37" | "54" | "35" | "16" | "17" => of(&DEFINITIONS, dice),
        "34" => {
            let name = dice.pick(&NAMES);
            let uid = dice.pick(&["", "#'01'B", "#'1'B", "#"]);
            format!("{name}{uid}").into_bytes()
        }
        "36" => from(&["1", "2", "3", "12", " "], dice),
        "38" => of(&["cn", "commonName", "2.5.4.3", "person", "9.9.9", "x0", "no such"], dice),
        "40" | "5" | "4" | "28" | "23" => octets(dice),
        "41" => {
            let lines: Vec<Vec<u8>> = (0..dice.between(1, 3)).map(|_| text(dice)).collect();
            lines.join(&b'$')
        }
        "44" | "26" => from(&["a", "B", "b", " ", "c", "ab", "1", "-"], dice),
        "50" => from(&["1", "2", "12", "-", " ", "+", "5"], dice),
        "53" => of(&["9912312359Z", "991231235900Z", "0001010000Z"], dice),
        "1.3.6.1.1.16.1" => of(&UUIDS, dice),
        "1.3.6.1.4.1.4203.666.11.2.1" => of(&CSNS, dice),
        "1.3.6.1.4.1.4203.1.1.2" => of(&["MD5$a$b", "MD5 $ a $ b", "SHA1$a$b", "x"], dice),
        _ => text(dice),
    }
}

fn text(dice: &mut Dice) -> Vec<u8> {
    if dice.one_in(40) {
        return Vec::new();
    }
    from(&LETTERS, dice)
}

fn from(letters: &[&str], dice: &mut Dice) -> Vec<u8> {
    let length = match dice.below(12) {
        0..6 => dice.between(1, 4),
        6..11 => dice.between(4, 14),
        _ => dice.between(14, 60),
    };
    (0..length).map(|_| *dice.pick(letters)).collect::<String>().into_bytes()
}

/// The marks of a value's ends in an index of pieces are among them, and zeros.
fn octets(dice: &mut Dice) -> Vec<u8> {
    let length = if dice.one_in(20) { dice.between(200, 240) } else { dice.below(8) };
    (0..length).map(|_| *dice.pick(&[0, 1, 2, 3, b'a', b'b', 0xfe, 0xff])).collect()
}

fn integer(dice: &mut Dice) -> Vec<u8> {
    let number = match dice.below(6) {
        0 => -(dice.below(20) as i64),
        1..4 => dice.below(33) as i64,
        4 => 1 << dice.below(63),
        _ => dice.seed() as i64,
    };
    match dice.below(30) {
        0 => format!("{number}{}", "0".repeat(dice.between(90, 300))),
        1 => format!("0{number}"),
        _ => number.to_string(),
    }
    .into_bytes()
}

/// Something like `value`: the same in another form, a part of it, or a neighbour.
pub fn variant(value: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut value = value.to_vec();
    match dice.below(12) {
        0 => value.make_ascii_uppercase(),
        1 => value = [b" ", &value[..], b"  "].concat(),
        2 => {
            value.pop();
        }
        3 => value.push(*dice.pick(b"a1 \x00")),
        4 if !value.is_empty() => {
            let at = dice.below(value.len());
            value[at] = value[at].wrapping_add(1);
        }
        5 => {
            let text = String::from_utf8_lossy(&value).replace(' ', "  ");
            value = text.into_bytes();
        }
        _ => {}
    }
    value
}

/// Something that may sound like `value`, or has its words in another order.
pub fn alike(value: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut words: Vec<&[u8]> = value
        .split(|octet| octet.is_ascii_punctuation() || *octet == b' ')
        .filter(|word| !word.is_empty())
        .collect();
    match dice.below(4) {
        0 => words.reverse(),
        1 => words.truncate(1),
        2 => drop(words.pop()),
        _ => {}
    }
    let mut alike = words.join(&b' ');
    if dice.one_in(2) {
        for octet in &mut alike {
            *octet = match *octet {
                b'a' => b'e',
                b'b' => b'p',
                b'd' => b't',
                other => other,
            };
        }
    }
    alike
}

/// A piece of `value`, of one to five octets mostly.
pub fn piece(value: &[u8], dice: &mut Dice) -> Option<Vec<u8>> {
    if value.is_empty() {
        return None;
    }
    let length = if dice.one_in(10) { dice.between(1, value.len()) } else { dice.between(1, 5) };
    let start = match dice.below(3) {
        0 => 0,
        1 => value.len().saturating_sub(length),
        _ => dice.below(value.len()),
    };
    let mut piece = value[start..value.len().min(start + length)].to_vec();
    if !dice.one_in(20) && std::str::from_utf8(value).is_ok() {
        // A character that was cut is no text.
        piece = String::from_utf8_lossy(&piece).replace('\u{fffd}', "").into_bytes();
    }
    if dice.one_in(6) {
        piece.make_ascii_uppercase();
    }
    (!piece.is_empty()).then_some(piece)
}

pub const NAMES: [&str; 8] = [
    "cn=a,o=Other",
    "cn=A, O=other",
    "ou=b b,dc=example,dc=com",
    "dc=example,dc=com",
    "cn=x+sn=y,o=Other",
    "sn=y + cn=X,o=Other",
    "",
    "no name",
];
const LETTERS: [&str; 20] = [
    "a", "b", "a", "b", "A", "c", " ", "d", "\u{e9}", "1", "an", "na", "*", "\\", "(", ")", "-",
    "\u{df}", "\u{200b}", "\u{a0}",
];
const TIMES: [&str; 7] = [
    "20240229120000Z",
    "202402291200Z",
    "20240229130000+0100",
    "20240229120000.5Z",
    "19700101000000Z",
    "99991231235959Z",
    "yesterday",
];
const DEFINITIONS: [&str; 6] = [
    "( 2.5.4.3 NAME 'cn' )",
    "( cn NAME 'x' )",
    "( 1.2.3 DESC 'y' )",
    "( 5 NAME 'z' FORM f )",
    "( 9.9.9 )",
    "none",
];
const UUIDS: [&str; 4] = [
    "597ae2f6-16a6-1027-98f4-d28b5365dc14",
    "597AE2F6-16A6-1027-98F4-D28B5365DC14",
    "00000000-0000-0000-0000-000000000000",
    "597ae2f6",
];
const CSNS: [&str; 3] = [
    "20070125062245.123456Z#000000#001#000000",
    "20240229120000.000000Z#00000A#001#000000",
    "20240229120000Z",
];
const SYNTAXES: [&str; 6] = [
    "1.3.6.1.4.1.1466.115.121.1.15",
    "1.3.6.1.4.1.1466.115.121.1.27",
    "1.3.6.1.4.1.1466.115.121.1.40",
    "1.3.6.1.4.1.1466.115.121.1.12",
    "1.3.6.1.4.1.1466.115.121.1.24",
    "1.3.6.1.4.1.1466.115.121.1.26",
];
