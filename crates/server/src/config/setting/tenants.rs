//! What single tenants have that others have not: lists of "tenant=something".

use std::collections::{BTreeMap, HashMap};

use lingua_core::limits::MAX_REGIONS_PER_JOB;
use lingua_core::{Profile, Region, TenantId};

use super::{Raw, Setting, list, listed};

/// Weights of tenants, as a list of "tenant=share".
impl Setting for HashMap<TenantId, u32> {
    fn read(raw: &Raw) -> Result<Self, String> {
        let share = |text: &String| {
            let wrong = || format!("has {text:?}, which is not \"tenant=share\", from 1 to 1000");
            let (tenant, share) = text.split_once('=').ok_or_else(wrong)?;
            let tenant = TenantId::new(tenant.trim()).map_err(|_| wrong())?;
            let share = share.trim().parse().ok().filter(|share| (1..=1_000).contains(share));
            Ok((tenant, share.ok_or_else(wrong)?))
        };
        list(raw)?.iter().map(share).collect()
    }

    fn print(&self) -> String {
        let mut shares: Vec<String> =
            self.iter().map(|(tenant, share)| format!("{tenant}={share}")).collect();
        shares.sort_unstable();
        listed(shares.into_iter())
    }
}

/// Profiles of tenants, as a list of "tenant=profile".
impl Setting for HashMap<TenantId, Profile> {
    fn read(raw: &Raw) -> Result<Self, String> {
        let profile = |text: &String| {
            let wrong =
                || format!("has {text:?}, which is not \"tenant=stable\" or \"tenant=fast\"");
            let (tenant, profile) = text.split_once('=').ok_or_else(wrong)?;
            let tenant = TenantId::new(tenant.trim()).map_err(|_| wrong())?;
            Ok((tenant, Profile::parse(profile.trim()).ok_or_else(wrong)?))
        };
        list(raw)?.iter().map(profile).collect()
    }

    fn print(&self) -> String {
        let mut profiles: Vec<String> =
            self.iter().map(|(tenant, profile)| format!("{tenant}={profile}")).collect();
        profiles.sort_unstable();
        listed(profiles.into_iter())
    }
}

/// Regions of tenants, as a list of "tenant=region" or "tenant=region+region".
impl Setting for BTreeMap<TenantId, Vec<Region>> {
    fn read(raw: &Raw) -> Result<Self, String> {
        let regions = |text: &String| {
            let wrong = || {
                let most = MAX_REGIONS_PER_JOB;
                format!(
                    "has {text:?}, which is not \"tenant=region\", or with up to {most} regions \"tenant=eu+uk\""
                )
            };
            let (tenant, regions) = text.split_once('=').ok_or_else(wrong)?;
            let tenant = TenantId::new(tenant.trim()).map_err(|_| wrong())?;
            let regions = regions.split('+').map(|region| Region::new(region.trim()));
            let regions: Vec<Region> = regions.collect::<Result<_, _>>().map_err(|_| wrong())?;
            if regions.len() > MAX_REGIONS_PER_JOB {
                return Err(wrong());
            }
            Ok((tenant, regions))
        };
        list(raw)?.iter().map(regions).collect()
    }

    fn print(&self) -> String {
        let one = |(tenant, regions): (&TenantId, &Vec<Region>)| {
            let regions: Vec<&str> = regions.iter().map(Region::as_str).collect();
            format!("{tenant}={}", regions.join("+"))
        };
        listed(self.iter().map(one))
    }
}
