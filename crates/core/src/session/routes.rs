//! The directions in which speech is translated: one lane for each target language.

use crate::eligibility::Route;
use crate::lang::Lang;

use super::settings::MAX_LANES;

/// The position of a route in its utterance's list, from 0. With the utterance's index it identifies a
/// job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lane(pub u8);

/// The directions of one utterance: 1 to [`MAX_LANES`], each with another target language.
///
/// The first is stored inline: a session with one target allocates nothing here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routes {
    first: Route,
    more: Box<[Route]>,
}

/// Why a list of routes is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoutesError {
    /// The list is empty.
    #[error("at least one target language is needed")]
    None,
    /// More than [`MAX_LANES`].
    #[error("at most {MAX_LANES} target languages are possible, these are {0}")]
    TooMany(usize),
    /// Two lanes would have the same target.
    #[error("the target language {0} is listed twice")]
    Twice(Lang),
    /// The node finds the direction out, so there is no list of targets.
    #[error("{0} goes both ways and cannot be combined with other targets")]
    TwoWay(Route),
}

impl Routes {
    /// Checks the list.
    pub fn new(routes: impl IntoIterator<Item = Route>) -> Result<Self, RoutesError> {
        let mut routes = routes.into_iter();
        let first = routes.next().ok_or(RoutesError::None)?;
        let more: Box<[Route]> = routes.collect();
        let routes = Routes { first, more };
        if routes.lanes() > MAX_LANES {
            return Err(RoutesError::TooMany(routes.lanes()));
        }
        if routes.lanes() > 1 {
            let mut seen = Vec::with_capacity(routes.lanes());
            for (_, route) in routes.iter() {
                let Route::Directed(_, target) = route else {
                    return Err(RoutesError::TwoWay(route));
                };
                if seen.contains(&target) {
                    return Err(RoutesError::Twice(target));
                }
                seen.push(target);
            }
        }
        Ok(routes)
    }

    /// A single direction.
    pub fn one(route: Route) -> Self {
        Routes { first: route, more: Box::default() }
    }

    /// Each lane with its direction.
    pub fn iter(&self) -> impl Iterator<Item = (Lane, Route)> {
        (0..).map(Lane).zip(std::iter::once(&self.first).chain(&self.more).copied())
    }

    /// The direction of the first lane.
    pub fn first(&self) -> Route {
        self.first
    }

    /// Number of lanes.
    pub fn lanes(&self) -> usize {
        1 + self.more.len()
    }
}

/// The target languages that a result of this route can have: two if the node finds the direction out.
pub(super) fn targets(route: &Route) -> impl Iterator<Item = Lang> {
    route.directions().map(|(_, target)| target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lang(tag: &str) -> Lang {
        Lang::new(tag).unwrap()
    }

    fn route(src: &str, tgt: &str) -> Route {
        Route::Directed(lang(src), lang(tgt))
    }

    #[test]
    fn routes_are_one_to_eight_with_different_targets() {
        assert_eq!(Routes::new([]), Err(RoutesError::None));
        let twice = Routes::new([route("en", "zh"), route("de", "zh")]);
        assert_eq!(twice, Err(RoutesError::Twice(lang("zh"))));
        let many: Vec<Route> =
            ["aa", "ab", "af", "am", "ar", "as", "ay", "az", "ba"].map(|t| route("en", t)).into();
        assert_eq!(Routes::new(many.clone()), Err(RoutesError::TooMany(9)));
        let eight = Routes::new(many[..8].iter().copied()).unwrap();
        assert_eq!(eight.lanes(), 8);
        assert_eq!(eight.iter().last(), Some((Lane(7), route("en", "az"))));
    }

    #[test]
    fn a_two_way_route_stands_alone() {
        let both = Route::Either(lang("en"), lang("zh"));
        assert_eq!(Routes::new([both]).unwrap(), Routes::one(both));
        assert_eq!(Routes::new([route("en", "de"), both]), Err(RoutesError::TwoWay(both)));
    }

    #[test]
    fn one_target_needs_no_allocation() {
        let one = Routes::one(route("en", "zh"));
        assert_eq!(one.more.len(), 0);
        assert!(size_of::<Routes>() <= 56, "{}", size_of::<Routes>());
    }
}
