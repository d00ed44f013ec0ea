//! Settings: what is accepted, what is refused and with which words.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::load::from_toml;
use super::row::Place;
use super::rows::{ROWS, SECTIONS};
use super::*;

fn parse(text: &str) -> Result<Settings, SettingsError> {
    let mut draft = Loaded::default();
    from_toml(&mut draft, "roster.toml", text).map(|()| draft.settings)
}

#[track_caller]
fn check(text: &str, change: impl FnOnce(&mut Settings)) {
    let mut want = Settings::default();
    change(&mut want);
    assert_eq!(parse(text).unwrap(), want);
}

#[track_caller]
fn check_refused(text: &str, want: &str) {
    assert_eq!(parse(text).unwrap_err().to_string(), want);
}

fn environment(pairs: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Settings::load(None, pairs, &[])
}

#[test]
fn switches_are_true_and_false_as_well() {
    let on = |text: &str| {
        let bind_by_name = |settings: Settings| settings.authentication.bind_by_name;
        parse(text).map(bind_by_name).map_err(|error| error.to_string())
    };
    for text in ["\"on\"", "\"true\"", "true"] {
        assert_eq!(on(&format!("[authentication]\nbind_by_name = {text}")), Ok(true));
    }
    for text in ["\"off\"", "\"false\"", "false"] {
        assert_eq!(on(&format!("[authentication]\nbind_by_name = {text}")), Ok(false));
    }
    let wrong = on("[authentication]\nbind_by_name = \"maybe\"").unwrap_err();
    assert!(wrong.ends_with("one of on, off (or true, false), not 'maybe'"), "{wrong}");
}

#[test]
fn every_key_of_the_file_is_read() {
    check("", |_| {});
    check("[server]\ndata = \"/srv/d\"\nworkers = 3", |s| {
        s.server.data = PathBuf::from("/srv/d");
        s.server.workers = 3;
    });
    check("[listen]\nldap = [\"127.0.0.1:389\", \"[::1]:389\"]\nldaps = []", |s| {
        s.listen.ldap = vec!["127.0.0.1:389".parse().unwrap(), "[::1]:389".parse().unwrap()];
        s.listen.ldaps = vec![];
    });
    check("listen.ldap = \"0.0.0.0:389\"", |s| {
        s.listen.ldap = vec!["0.0.0.0:389".parse().unwrap()];
    });
    check("[listen]\nldapi = \"\"\nldapi_mode = \"0600\"", |s| {
        s.listen.ldapi = PathBuf::new();
        s.listen.ldapi_mode = 0o600;
    });
    check("[limits]\nidle_timeout_s = 0x10\nmessage_size_max_bytes = 1_024", |s| {
        s.limits.idle_timeout = Duration::from_secs(16);
        s.limits.message_size_max_bytes = 1_024;
    });
    check("[limits]\nsort_entries_max = 7\nsort_bytes_max = 1_024", |s| {
        s.limits.sort_entries_max = 7;
        s.limits.sort_bytes_max = 1_024;
    });
    check("[admin]\nlisten = \"[::1]:9389\"\nremote = \"on\"", |s| {
        s.admin.listen = vec!["[::1]:9389".parse().unwrap()];
        s.admin.remote = true;
    });
    check("[log]\nlevel = \"debug\"\nformat = \"json\"", |s| {
        s.log = LogSettings { level: "debug", format: "json" };
    });
    check("[archive]\nkeep_days = 0\nmax_percent = 3\nmax_mib = 5\ndirectory = \"/a\"", |s| {
        let (keep, directory) = (Duration::ZERO, PathBuf::from("/a"));
        s.archive = ArchiveSettings { keep, max_percent: 3, max_bytes: 5 << 20, directory };
    });
    check("[store]\nmap_size_gib = 2", |s| s.store.map_size_bytes = 2 << 30);
    check("[store]\noverlay_max_mib = 64\nindex_build_percent = 7\njournal_keep_mib = 0", |s| {
        s.store.overlay_max_bytes = 64 << 20;
        s.store.index_build_percent = 7;
        s.store.journal_keep_bytes = 0;
    });
    check("[store]\ndisk_low_mib = 10\ndisk_full_mib = 5", |s| {
        s.store.disk_low_bytes = 10 << 20;
        s.store.disk_full_bytes = 5 << 20;
    });
}

#[test]
fn the_disk_cannot_be_full_before_it_is_low() {
    assert!(environment(&[("ROSTER_STORE__DISK_LOW_MIB", "100")]).is_ok());
    let refused = environment(&[("ROSTER_STORE__DISK_LOW_MIB", "99")]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "settings: store.disk_full_mib (100) must not be above store.disk_low_mib (99)"
    );
}

#[test]
fn an_unknown_name_is_refused_with_a_suggestion() {
    check_refused(
        "[limits]\n\nconections_max = 1",
        "roster.toml:3: there is no setting 'limits.conections_max'; \
         did you mean 'limits.connections_max'?",
    );
    check_refused(
        "[server]\nidle_timeout_s = 1",
        "roster.toml:2: there is no setting 'server.idle_timeout_s'; \
         did you mean 'limits.idle_timeout_s'?",
    );
    check_refused(
        "[listenn]\nldap = []",
        "roster.toml:1: there is no setting 'listenn'; did you mean 'listen'?",
    );
    check_refused(
        "workers = 2",
        "roster.toml:1: there is no setting 'workers'; did you mean 'server.workers'?",
    );
    check_refused("[zzz]", "roster.toml:1: there is no setting 'zzz'");
    check_refused(
        "[log]\nqqqqqqqqqqqq = 1",
        "roster.toml:2: there is no setting 'log.qqqqqqqqqqqq'",
    );
}

#[test]
fn a_wrong_value_is_refused_with_its_line() {
    check_refused(
        "[server]\nworkers = \"two\"",
        "roster.toml:2: server.workers must be a number of threads from 0 to 1024, not 'two'",
    );
    check_refused(
        "[server]\nworkers = 1025",
        "roster.toml:2: server.workers must be a number of threads from 0 to 1024, not 1025",
    );
    check_refused(
        "[server]\nworkers = -1",
        "roster.toml:2: server.workers must be a number of threads from 0 to 1024, not -1",
    );
    check_refused(
        "[server]\nworkers = 99999999999999999999999",
        "roster.toml:2: server.workers must be a number of threads from 0 to 1024, \
         not 99999999999999999999999",
    );
    check_refused(
        "[server]\nworkers = true",
        "roster.toml:2: server.workers must be a number of threads from 0 to 1024, not true",
    );
    check_refused("[server]\ndata = \"\"", "roster.toml:2: server.data must be a path, not ''");
    check_refused(
        "[server]\ndata = 1.5",
        "roster.toml:2: server.data must be a path, not a fraction",
    );
    check_refused(
        "[listen]\nldap = [\"localhost\"]",
        "roster.toml:2: listen.ldap must be a list of IP addresses with port \
         like \"127.0.0.1:1389\" or \"[::1]:1389\", not 'localhost'",
    );
    check_refused(
        "[listen]\nldapi_mode = \"0999\"",
        "roster.toml:2: listen.ldapi_mode must be permission bits in octal like \"0660\", \
         not '0999'",
    );
    check_refused(
        "[listen]\nldapi_mode = 660",
        "roster.toml:2: listen.ldapi_mode must be permission bits in octal like \"0660\", not 660",
    );
    check_refused(
        "[log]\nlevel = \"loud\"",
        "roster.toml:2: log.level must be one of error, warn, info, debug, trace, not 'loud'",
    );
    check_refused(
        "server = 3",
        "roster.toml:1: server is a section: write [server] and its keys below",
    );
}

#[test]
fn what_is_not_toml_is_refused_with_its_line() {
    for text in ["[server]\nworkers 3", "[server]\nworkers = 1\nworkers = 2", "[server\n"] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.starts_with("roster.toml:"), "{error}");
    }
}

#[test]
fn a_variable_overrides_the_file_and_a_flag_overrides_both() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("roster.toml");
    std::fs::write(&file, "[server]\nworkers = 1\nscan_threads = 1\nscan_queue_max = 1").unwrap();
    let variables = [("ROSTER_SERVER__WORKERS", "2"), ("ROSTER_SERVER__SCAN_THREADS", "2")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let flags = [("server.workers", "3".to_owned())];
    let settings = Settings::load(Some(&file), variables.into_iter(), &flags).unwrap();
    assert_eq!(settings.server.workers, 3);
    assert_eq!(settings.server.scan_threads, 2);
    assert_eq!(settings.server.scan_queue_max, 1);
}

#[test]
fn the_file_of_the_data_directory_is_below_all_others() {
    let directory = tempfile::tempdir().unwrap();
    let (data, file) = (directory.path().join("data"), directory.path().join("file"));
    std::fs::create_dir(&data).unwrap();
    let flags = [("server.data", data.display().to_string()), ("server.scan_threads", "3".into())];
    let load = |file: Option<&Path>| Settings::load(file, std::iter::empty(), &flags);
    assert_eq!(load(None).unwrap().server.workers, 0, "there need not be one");
    let own = data.join("roster.toml");
    let text = "[server]\ndata = \"/elsewhere\"\nworkers = 1\nscan_threads = 1\nscan_queue_max = 1";
    std::fs::write(&own, text).unwrap();
    std::fs::write(&file, "[server]\nscan_queue_max = 2\nscan_threads = 2").unwrap();
    let of = |settings: Settings| {
        let server = settings.server;
        assert_eq!(server.data, data, "it does not say where it is");
        (server.workers, server.scan_queue_max, server.scan_threads)
    };
    assert_eq!(of(load(None).unwrap()), (1, 1, 3));
    assert_eq!(of(load(Some(&file)).unwrap()), (1, 2, 3));
    assert_eq!(of(load(Some(&own)).unwrap()), (1, 1, 3));
    std::fs::write(&own, "[server]\nworker = 1").unwrap();
    assert!(load(None).unwrap_err().to_string().contains("did you mean 'server.workers'"));
}

#[test]
fn a_list_in_a_variable_is_separated_by_commas() {
    let settings = environment(&[("ROSTER_LISTEN__LDAP", "127.0.0.1:1, [::1]:2")]).unwrap();
    assert_eq!(settings.listen.ldap.len(), 2);
    let settings = environment(&[("ROSTER_LISTEN__LDAP", "")]).unwrap();
    assert!(settings.listen.ldap.is_empty());
}

#[test]
fn a_variable_may_name_a_file_with_the_value() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("value");
    std::fs::write(&file, "7\n").unwrap();
    let name = file.to_str().unwrap();
    let settings = environment(&[("ROSTER_SERVER__WORKERS_FILE", name)]).unwrap();
    assert_eq!(settings.server.workers, 7);
    let error = environment(&[("ROSTER_SERVER__WORKERS_FILE", "/does/not/exist")]).unwrap_err();
    assert!(error.to_string().starts_with("cannot read /does/not/exist: "), "{error}");
}

#[test]
fn a_variable_that_looks_like_a_setting_is_refused() {
    let refused = |name: &str| environment(&[(name, "1")]).unwrap_err().to_string();
    assert_eq!(
        refused("ROSTER_SERVER__WORKER"),
        "environment: there is no setting 'ROSTER_SERVER__WORKER'; \
         did you mean 'ROSTER_SERVER__WORKERS'?"
    );
    assert_eq!(
        refused("ROSTER_LISTEN_LDAP"),
        "environment: there is no setting 'ROSTER_LISTEN_LDAP'; did you mean 'ROSTER_LISTEN__LDAP'?"
    );
    assert_eq!(
        refused("ROSTER_SERVER__WORKERS_"),
        "environment: there is no setting 'ROSTER_SERVER__WORKERS_'; \
         did you mean 'ROSTER_SERVER__WORKERS'?"
    );
    // Not ours: another program's, or the command line's own.
    environment(&[("PATH", "x"), ("ROSTER_LOG", "debug"), ("ROSTER_PASSWORD", "x")]).unwrap();
}

#[test]
fn a_wrong_flag_or_variable_is_refused_by_name() {
    let error = environment(&[("ROSTER_SERVER__WORKERS", "x")]).unwrap_err().to_string();
    assert_eq!(
        error,
        "ROSTER_SERVER__WORKERS: server.workers must be a number of threads from 0 to 1024, not x"
    );
    let flags = [("listen.ldap", "nowhere".to_owned())];
    let error = Settings::load(None, std::iter::empty(), &flags).unwrap_err().to_string();
    assert!(error.starts_with("command line: listen.ldap must be"), "{error}");
    let flags = [("listen.ldab", String::new())];
    let error = Settings::load(None, std::iter::empty(), &flags).unwrap_err().to_string();
    assert_eq!(
        error,
        "command line: there is no setting 'listen.ldab'; did you mean 'listen.ldap'?"
    );
}

#[test]
fn a_file_that_is_missing_is_refused() {
    let path = PathBuf::from("/does/not/exist.toml");
    let error = Settings::load(Some(&path), std::iter::empty(), &[]).unwrap_err();
    assert!(error.to_string().starts_with("cannot read /does/not/exist.toml: "), "{error}");
}

#[test]
fn rows_are_unique_and_in_the_order_of_their_sections() {
    let names = ROWS.iter().map(row::Row::name).collect::<BTreeSet<_>>();
    assert_eq!(names.len(), ROWS.len());
    let mut sections = ROWS.iter().map(|row| row.section).collect::<Vec<_>>();
    sections.dedup();
    assert_eq!(sections, SECTIONS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
}

#[test]
fn an_admin_listener_for_others_must_be_meant() {
    let set = |address: &str| environment(&[("ROSTER_ADMIN__LISTEN", address)]);
    assert!(set("127.0.0.1:9389,[::1]:9389").is_ok());
    let want = "settings: admin.listen is 0.0.0.0:9389, which other machines may reach, without \
                TLS and without a password; set admin.remote = \"on\" to confirm";
    assert_eq!(set("127.0.0.1:9389,0.0.0.0:9389").unwrap_err().to_string(), want);
    let meant = [("ROSTER_ADMIN__LISTEN", "0.0.0.0:9389"), ("ROSTER_ADMIN__REMOTE", "on")];
    assert!(environment(&meant).is_ok());
}

#[test]
fn the_sample_says_the_defaults() {
    let sample = Settings::sample();
    assert_eq!(parse(&sample).unwrap(), Settings::default());
    // With every comment sign in front of a key taken away, too.
    let keys = ROWS.iter().fold(sample, |text, row| {
        text.replace(&format!("\n#{} =", row.key), &format!("\n{} =", row.key))
    });
    let policy = policy::SAMPLE.matches("\n#").count();
    assert_eq!(keys.matches("\n#").count(), 2 * ROWS.len() + SECTIONS.len() + policy);
    assert_eq!(parse(&keys).unwrap(), Settings::default());
}

#[test]
fn the_reference_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/settings.md");
    if std::env::var_os("ROSTER_WRITE_REFERENCE").is_some() {
        std::fs::write(path, Settings::reference()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), Settings::reference(), "see its head");
}

#[test]
fn the_attribute_types_of_settings_are_those_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../schema/files/18-settings.ldif");
    if std::env::var_os("ROSTER_WRITE_REFERENCE").is_some() {
        std::fs::write(path, of_directory::schema()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), of_directory::schema(), "see its head");
    let numbers = ROWS.iter().filter_map(|row| match row.place {
        Place::Directory(number) => Some(number),
        Place::Start | Place::Reload => None,
    });
    let numbers: Vec<u16> = numbers.collect();
    let different: BTreeSet<u16> = numbers.iter().copied().collect();
    assert_eq!(numbers.len(), different.len(), "two settings have one number");
}

#[test]
fn what_this_server_says_comes_before_what_the_directory_says() {
    let lines = ["limits.size_limit_entries=7", "limits.idle_timeout_s=8", "limits.unknown=9"];
    let directory = lines.map(str::to_owned);
    let own_text = Some("[limits]\nidle_timeout_s = 9");
    let environment = [("ROSTER_LIMITS__TIME_LIMIT_S".to_owned(), "10".to_owned())];
    let sources = OwnSources::read(None, environment.into_iter(), &[], own_text).unwrap();
    let Loaded { settings, given } = sources.load(&directory).unwrap();
    assert_eq!(settings.limits.size_limit_entries, 7);
    assert_eq!(settings.limits.idle_timeout, Duration::from_secs(9));
    assert_eq!(settings.limits.time_limit_s, 10);
    let given: Vec<(&str, &str)> =
        given.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(given, [("limits.idle_timeout_s", "9"), ("limits.time_limit_s", "10")]);
}

#[test]
fn lines_of_the_directory_are_held_to_the_limits_of_their_rows() {
    let check = |lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        of_directory::check(&lines)
    };
    check(&[]).unwrap();
    check(&["authentication.name_attributes=uid", "authentication.name_attributes=mail"]).unwrap();
    check(&["password.check_own=false", "password.scheme=SSHA512"]).unwrap();
    let why = check(&["limits.outstanding_max=0"]).unwrap_err();
    assert!(why.starts_with("limits.outstanding_max must be"), "{why}");
    let why = check(&["password.scheme=rot13"]).unwrap_err();
    assert!(why.starts_with("password.scheme must be one of"), "{why}");
}

#[test]
fn relative_paths_are_taken_from_the_data_directory() {
    let settings = parse("[server]\ndata = \"/srv/d\"").unwrap();
    assert_eq!(settings.ldapi_path(), Some(PathBuf::from("/srv/d/ldapi")));
    assert_eq!(settings.cert_path(), PathBuf::from("/srv/d/tls/cert.pem"));
    assert!(settings.has_default_certificate());
    let settings = parse("[tls]\ncert = \"/etc/c.pem\"\n[listen]\nldapi = \"\"").unwrap();
    assert_eq!(settings.cert_path(), PathBuf::from("/etc/c.pem"));
    assert!(!settings.has_default_certificate());
    assert_eq!(settings.ldapi_path(), None);
}

#[test]
fn every_scheme_can_be_set() {
    assert_eq!(auth::password::Scheme::words().collect::<Vec<_>>(), rows::passwords::SCHEMES);
    let settings = parse("[password]\nscheme = \"SSHA512\"\nrehash_on_bind = \"off\"").unwrap();
    let options = settings.password.options;
    assert_eq!(options.storage.scheme, auth::password::Scheme::Ssha512);
    assert!(!options.rehash_on_bind);
    // The defaults of the settings are those of the directory.
    let default = Settings::default().password.options;
    assert_eq!(default, PasswordOptions::default());
}
