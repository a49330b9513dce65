use proptest::prelude::*;

use super::super::strategies::{port, rules, target};
use super::*;
use crate::policy::{Decision, NetworkPolicy};

fn rules_of(rules: &[&str]) -> EgressRules {
    EgressRules::new(rules.iter().map(|rule| rule.parse().unwrap()).collect())
}

fn narrowed(policy: &[&str], asked: &[&str]) -> Result<Vec<String>, String> {
    let narrowed = rules_of(policy).narrowed(&rules_of(asked));
    let narrowed = narrowed.map_err(|error| error.to_string())?;
    Ok(narrowed.rules().iter().map(ToString::to_string).collect())
}

#[test]
fn asking_for_less_is_granted() {
    for (policy, asked) in [
        (&["a.org"][..], "a.org:443"),
        (&["a.org:80", "a.org:443"], "a.org"),
        (&["*.a.org"], "x.a.org"),
        (&["*.a.org"], "*.x.a.org:80"),
        (&["1.2.0.0/16:22"], "1.2.3.0/24:22"),
        (&["[2001:db8::]/32 private"], "[2001:db8::7] private"),
        (&["a.org tcp"], "a.org"),
        (&["a.org private"], "a.org"),
        (&["a.org"], "a.org http GET /v1/*"),
        (&["a.org http"], "a.org http GET"),
        (
            &["*.a.org http GET,PUT /v1/*"],
            "x.a.org:443 http GET /v1/a",
        ),
        (&["169.254.169.254 private"], "169.254.169.254 private"),
    ] {
        assert_eq!(narrowed(policy, &[asked]), Ok(vec![asked.to_owned()]));
    }
}

#[test]
fn asking_for_more_is_refused() {
    for (policy, asked) in [
        (&[][..], "a.org"),
        (&["b.org"], "a.org"),
        (&["a.org:443"], "a.org"),
        (&["a.org"], "a.org:22"),
        (&["a.org"], "a.org tcp"),
        (&["a.org"], "a.org private"),
        (&["a.org http"], "a.org"),
        (&["a.org http GET"], "a.org http"),
        (&["a.org http GET"], "a.org http GET,PUT"),
        (&["a.org http /v1/*"], "a.org http /v1*"),
        (&["*.a.org"], "a.org"),
        (&["x.a.org"], "*.a.org"),
        (&["*.a.org"], "xa.org"),
        (&["1.2.3.0/24"], "1.2.0.0/16"),
        (&["0.0.0.0/0"], "a.org"),
        (&["169.254.0.0/16 private"], "169.254.169.254 private"),
        (&["*.a.org"], "1x.2.3.4.5.6.7.8.9.a.org"),
    ] {
        let error = narrowed(policy, &[asked]).unwrap_err();
        assert_eq!(
            error,
            format!("{asked}, which no rule of the policy allows")
        );
    }
}

#[test]
fn denials_of_the_policy_stay_in_force() {
    let policy = &["*.a.org", "!x.a.org"];
    assert_eq!(
        narrowed(policy, &["y.a.org", "!y.a.org:80"]),
        Ok(["y.a.org", "!y.a.org:80", "!x.a.org"]
            .map(str::to_owned)
            .to_vec())
    );
    assert_eq!(
        narrowed(policy, &["x.a.org"]),
        Err("x.a.org, which the policy's rule !x.a.org denies".to_owned())
    );
}

#[test]
fn empty_list_is_no_network_under_every_policy() {
    let allow = NetworkPolicy::Allow(vec!["a.org".parse().unwrap()]);
    for policy in [NetworkPolicy::None, allow, NetworkPolicy::Full] {
        assert_eq!(policy.narrowed(&rules_of(&[])), Ok(NetworkPolicy::None));
    }
    let asked = rules_of(&["10.0.0.1:22 private"]);
    assert!(NetworkPolicy::None.narrowed(&asked).is_err());
    let allowed = NetworkPolicy::Allow(asked.rules().to_vec());
    assert_eq!(NetworkPolicy::Full.narrowed(&asked), Ok(allowed));
}

proptest! {
    #[test]
    fn narrowed_rules_allow_nothing_more(policy in rules(), asked in rules(), target in target(), port in port()) {
        if let Ok(narrowed) = policy.narrowed(&asked)
            && let Decision::Allowed { level, private, .. } = narrowed.decide(&target, port)
        {
            prop_assert!(asked.decide(&target, port).is_allowed());
            prop_assert!(policy.decide(&target, port).is_allowed());
            let mut allowing = policy.allowing();
            prop_assert!(allowing.any(|rule| rule.matches(&target, port)
                && rule.level(port) <= level
                && (rule.is_private() || !private)));
        }
    }

    #[test]
    fn narrowing_twice_changes_nothing(policy in rules(), asked in rules()) {
        if let Ok(once) = policy.narrowed(&asked) {
            prop_assert_eq!(policy.narrowed(&once), Ok(once));
        }
    }

    #[test]
    fn whole_policy_can_be_asked_for(policy in rules()) {
        let clashes = policy.allowing().any(|asked| {
            let mut ports = asked.ports().unwrap_or_default().into_iter();
            ports.any(|port| policy.denying().any(|own| denies(own, asked, port)))
        });
        prop_assert!(clashes || policy.narrowed(&policy) == Ok(policy.clone()));
    }
}
