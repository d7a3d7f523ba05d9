//! What one contender is measured on: a control plane of its own with the nodes, and the contender in it.

use std::fmt;

use anyhow::{Context, Result};
use clap::ValueEnum;
use crds::card_inventory::CardInventory;
use kube::Api;
use kube::api::ListParams;

use super::Plan;
use super::bare::BareLoop;
use super::bare_webhook::BareWebhook;
use super::observer::Observer;
use super::pods::{self, CARD, Creator, Marked, NAMESPACE};
use super::usage::Clock;
use crate::cardgate::{Cardgate, Settings};
use crate::controlplane::{ControlPlane, Options};
use crate::wait::{self, Seen};
use crate::workloads;

/// What lets pods in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Contender {
    /// Nothing: pods without gates, and the stock kube-scheduler.
    Plain,
    /// A loop that removes every gate.
    Bare,
    /// The same, and a webhook that adds every gate.
    BareWebhook,
    /// Cardgate as it is installed, with webhook and policies.
    Cardgate,
    /// The same, where drivers publish the cards as devices and each pod has a claim.
    Claims,
}

impl Contender {
    /// All of them, in the order in which they are measured.
    pub const ALL: [Self; 5] = [Self::Plain, Self::Bare, Self::BareWebhook, Self::Cardgate, Self::Claims];
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Plain => "plain scheduler",
            Self::Bare => "bare loop",
            Self::BareWebhook => "bare webhook",
            Self::Cardgate => "Cardgate",
            Self::Claims => "Cardgate, claims",
        })
    }
}

/// A contender on its control plane. What is above goes first when it is dropped.
pub(super) struct Scene {
    pub contender: Contender,
    pub observer: Observer,
    pub creator: Creator,
    bare: Option<BareLoop>,
    bare_webhook: Option<BareWebhook>,
    cardgate: Option<Cardgate>,
    pub plane: ControlPlane,
}

impl Scene {
    /// Starts everything, and waits until nothing is left to do.
    pub async fn set(plan: &Plan, contender: Contender) -> Result<Self> {
        // The audit log costs each contender the same.
        let mut options = Options::default().audit();
        if plan.at_once {
            options = options.at_once();
        }
        let plane = ControlPlane::start(options).await?;
        plane.create_namespace(NAMESPACE, &[], &[]).await?;
        if contender == Contender::Claims {
            pods::create_device_nodes(&plane, plan.nodes, plan.cards_of_a_node()).await?;
        } else {
            let nodes = pods::nodes(plan.nodes, plan.cards_of_a_node());
            plane.create_nodes(&nodes).await?;
        }
        let marked = match contender {
            Contender::Plain => Marked::Ungated,
            Contender::Bare => Marked::ByCreator,
            Contender::BareWebhook | Contender::Cardgate => Marked::ByWebhook,
            Contender::Claims => Marked::ByWebhookWithClaims,
        };
        let cardgate = match contender {
            Contender::Cardgate | Contender::Claims => Some(start_cardgate(&plane, plan).await?),
            Contender::Plain | Contender::Bare | Contender::BareWebhook => None,
        };
        let bare = match contender {
            Contender::Bare | Contender::BareWebhook => Some(BareLoop::start(&plane).await?),
            Contender::Plain | Contender::Cardgate | Contender::Claims => None,
        };
        let bare_webhook = match contender {
            Contender::BareWebhook => Some(BareWebhook::start(&plane).await?),
            Contender::Plain | Contender::Bare | Contender::Cardgate | Contender::Claims => None,
        };
        Ok(Self {
            contender,
            observer: Observer::start(plane.client().await?, NAMESPACE),
            creator: Creator::new(plane.client().await?, marked),
            bare,
            bare_webhook,
            cardgate,
            plane,
        })
    }

    /// Makes a queue with room for exactly so many of the load's pods. Only Cardgate needs it.
    pub async fn queue(&self, name: &str, pods: usize) -> Result<()> {
        if self.cardgate.is_some() {
            let cards = u64::try_from(pods)?;
            let queue = workloads::queue(name)
                .quota(CARD, cards)
                .capability("cpu", &(cards * pods::CORES).to_string())
                .capability("memory", &format!("{}Gi", cards * pods::GIBIBYTES));
            self.plane.apply(&queue.build()).await?;
        }
        Ok(())
    }

    /// Cardgate, where it is the contender.
    pub fn cardgate(&self) -> Result<&Cardgate> {
        self.cardgate.as_ref().context("Cardgate does not run here")
    }

    /// The clocks of everything that takes part, this program included.
    pub fn clocks(&self) -> Vec<Clock> {
        let components = self.plane.processes().iter();
        let mut clocks: Vec<_> = components
            .map(|process| Clock::of_process(process.name(), process.pid()))
            .collect();
        if let Some(cardgate) = &self.cardgate {
            let instances = [(OPERATOR, cardgate.operator()), (WEBHOOK, cardgate.webhook())];
            clocks.extend(
                instances
                    .iter()
                    .filter_map(|(name, instance)| Some(Clock::of_process(name, instance.pid()?))),
            );
        }
        clocks.extend(self.bare.as_ref().map(|bare| bare.clock.clone()));
        clocks.extend(self.bare_webhook.as_ref().map(|webhook| webhook.clock.clone()));
        clocks.push(Clock::of_process(CREATORS, std::process::id()));
        clocks
    }

    /// An error if something of it has ended.
    pub fn ensure_running(&self) -> Result<()> {
        self.plane.ensure_running()?;
        if let Some(cardgate) = &self.cardgate {
            cardgate.operator().ensure_running()?;
            cardgate.webhook().ensure_running()?;
        }
        Ok(())
    }

    /// Ends everything; an error if the bare loop or the bare webhook has failed.
    pub async fn strike(mut self) -> Result<()> {
        self.bare.take().map_or(Ok(()), BareLoop::stop)?;
        match self.bare_webhook.take() {
            Some(webhook) => webhook.stop().await,
            None => Ok(()),
        }
    }
}

/// How the operator is called in tables.
pub(super) const OPERATOR: &str = "operator";
/// How the webhook is called in tables.
pub(super) const WEBHOOK: &str = "webhook";
/// How this program is called in tables.
pub(super) const CREATORS: &str = "creators and observer";

async fn start_cardgate(plane: &ControlPlane, plan: &Plan) -> Result<Cardgate> {
    let cardgate = Cardgate::start_with(plane, Settings::default()).await?;
    let inventories: Api<CardInventory> = Api::all(plane.client().await?);
    wait::eventually("an inventory of every node", wait::PATIENCE * 4, async || {
        cardgate.operator().ensure_running()?;
        let found = inventories.list_metadata(&ListParams::default()).await?.items.len();
        Ok(Seen::when(
            found == plan.nodes,
            format!("{found} of {} inventories", plan.nodes),
        ))
    })
    .await?;
    Ok(cardgate)
}
