//! Time slices of connections of one worker, in process.

use testing::chance::Chance;
use tokio::task::yield_now;

use super::simulated::{all_ended, ask_calmly, connect, finish, with_worker};
use super::*;

#[test]
fn large_requests_of_one_connection_do_not_delay_its_neighbours() {
    // Messages were counted, and not what they cost: 128 filters of 50 KB were worked off before a
    // neighbour had its time slice.
    with_worker(
        |_, _| {},
        async |worker| {
            let begin = bind(1, ROOT, "secret");
            ask_calmly(worker, &[&*begin, &add(2, "large", 50)].concat()).await;
            let terms = (0..2_000).map(|term| format!("(description~=nobody{term})"));
            let filter = format!("(|{})", terms.collect::<String>());
            let large = |id| search_by(id, "ou=large,dc=example,dc=org", Scope::Base, &filter);
            let requests = begin.into_iter().chain((2..52).flat_map(large)).collect::<Vec<_>>();
            let greedy = connect(worker, Chance::new(0, 0), true);
            greedy.borrow_mut().take_more(usize::MAX);
            let neighbour = connect(worker, Chance::new(0, 0), true);
            neighbour.borrow_mut().take_more(usize::MAX);
            greedy.borrow_mut().send(requests.iter().copied());
            // It has its first time slice.
            while greedy.borrow().unread() == requests.len() {
                yield_now().await;
            }
            neighbour.borrow_mut().send(extended(7, WHO_AM_I));
            while neighbour.borrow().received.is_empty() {
                yield_now().await;
            }
            let handled = requests.len() - greedy.borrow().unread();
            assert!(handled < requests.len() / 4, "{handled} of {} octets", requests.len());
            finish(&mut greedy.borrow_mut(), &[]);
            finish(&mut neighbour.borrow_mut(), &[]);
            all_ended(worker).await;
        },
    );
}
