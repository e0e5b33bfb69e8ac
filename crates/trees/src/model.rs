//! A checked model, compiled to one table.

use crate::file::{self, Columns, Combine, Content, DEPTH_MAX, NODES_MAX, Refused, TREES_MAX};

/// A node of any tree.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// At a leaf its value, else the threshold.
    number: f64,
    /// Where smaller values go; 0 at a leaf, for the table's first node is a root.
    left: u32,
    right: u32,
    /// Column of the values that are compared.
    column: u32,
}

/// A model that was checked and can score.
#[derive(Clone, Debug)]
pub struct Model {
    name: String,
    version: String,
    threshold: f64,
    features: Vec<String>,
    combine: Combine,
    base: f64,
    roots: Vec<u32>,
    nodes: Vec<Node>,
}

/// A comparison on the way to a leaf.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Name of the feature.
    pub feature: String,
    /// The flow's value.
    pub value: f64,
    /// What it was compared with.
    pub threshold: f64,
    /// Whether it was larger.
    pub is_above: bool,
}

impl Model {
    /// Reads a model file.
    ///
    /// `names` are the columns of the values that will be scored; the model may use any of them.
    ///
    /// # Errors
    ///
    /// The file is too large, damaged, of another schema, names an unknown feature, or its trees are not
    /// trees of finite numbers within the limits of [`file`].
    pub fn parse(bytes: &[u8], names: &[&str]) -> Result<Self, Refused> {
        let content = file::read(bytes)?;
        let columns = columns(&content.features, names)?;
        check_settings(&content)?;
        let mut model = Self {
            name: content.name,
            version: content.version,
            threshold: content.threshold,
            features: names.iter().map(|name| (*name).to_owned()).collect(),
            combine: content.combine,
            base: content.base,
            roots: Vec::with_capacity(content.trees.len()),
            nodes: Vec::new(),
        };
        for (number, tree) in content.trees.iter().enumerate() {
            model.append(number, tree, &columns)?;
        }
        Ok(model)
    }

    /// The name that its file gives.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version that its file gives.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The score from which on a flow counts as malicious, 0 to 1.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// Probability that a flow is malicious, 0 to 1. `values` are in the order of the names that the model
    /// was read with; a missing one counts as 0.
    #[must_use]
    pub fn score(&self, values: &[f64]) -> f64 {
        let sum: f64 = self.roots.iter().map(|root| self.leaf(*root, values, |_| ())).sum();
        match self.combine {
            Combine::Mean => sum / self.roots.len() as f64,
            Combine::Logistic => 1.0 / (1.0 + (-(self.base + sum)).exp()),
        }
    }

    /// The comparisons of the tree that speaks most for malice.
    #[must_use]
    pub fn explain(&self, values: &[f64]) -> Vec<Step> {
        let leaf = |root: &&u32| self.leaf(**root, values, |_| ());
        let root = self.roots.iter().max_by(|a, b| leaf(a).total_cmp(&leaf(b)));
        let mut steps = Vec::new();
        self.leaf(root.copied().unwrap_or_default(), values, |node| {
            let value = value(values, node);
            steps.push(Step {
                feature: self.features.get(node.column as usize).cloned().unwrap_or_default(),
                value,
                threshold: node.number,
                is_above: !goes_left(value, node),
            });
        });
        steps
    }

    /// Value of the leaf that `values` reach below `root`; `visit` sees each comparison.
    fn leaf(&self, root: u32, values: &[f64], mut visit: impl FnMut(&Node)) -> f64 {
        let mut at = root;
        loop {
            let Some(node) = self.nodes.get(at as usize) else { return 0.0 };
            if node.left == 0 {
                return node.number;
            }
            visit(node);
            at = if goes_left(value(values, node), node) { node.left } else { node.right };
        }
    }

    fn append(&mut self, number: usize, tree: &Columns, columns: &[u32]) -> Result<(), Refused> {
        let root = self.nodes.len();
        let nodes = nodes(number, tree, columns, root, self.combine)?;
        if root + nodes.len() > NODES_MAX {
            return Err(Refused::value("trees", "more nodes", format!("at most {NODES_MAX}")));
        }
        self.roots.push(index(root));
        self.nodes.extend(nodes);
        Ok(())
    }
}

fn value(values: &[f64], node: &Node) -> f64 {
    values.get(node.column as usize).copied().unwrap_or_default()
}

fn goes_left(value: f64, node: &Node) -> bool {
    #[allow(clippy::cast_possible_truncation)] // as scikit-learn does
    let rounded = value as f32;
    f64::from(rounded) <= node.number
}

/// For each of the model's features, its column among `names`.
fn columns(features: &[String], names: &[&str]) -> Result<Vec<u32>, Refused> {
    features
        .iter()
        .enumerate()
        .map(|(number, feature)| {
            let found = names.iter().position(|name| name == feature);
            found.map(index).ok_or_else(|| {
                let place = format!("features.{number}");
                Refused::value(place, format!("{feature:?}"), "the name of a feature")
            })
        })
        .collect()
}

fn check_settings(content: &Content) -> Result<(), Refused> {
    if !(0.0..=1.0).contains(&content.threshold) {
        return Err(Refused::value("threshold", content.threshold, "0 to 1"));
    }
    if !content.base.is_finite() {
        return Err(Refused::value("base", content.base, "a finite number"));
    }
    if !(1..=TREES_MAX).contains(&content.trees.len()) {
        let expected = format!("1 to {TREES_MAX} trees");
        return Err(Refused::value("trees", content.trees.len(), expected));
    }
    Ok(())
}

/// The nodes of a tree, to stand from index `root` on.
fn nodes(
    number: usize,
    tree: &Columns,
    columns: &[u32],
    root: usize,
    combine: Combine,
) -> Result<Vec<Node>, Refused> {
    check_lengths(number, tree)?;
    let Columns { feature, threshold, left, right, value } = tree;
    let count = feature.len();
    let mut depth = vec![0_u32; count];
    let mut nodes = Vec::with_capacity(count);
    let rows = feature.iter().zip(threshold).zip(left).zip(right).zip(value).enumerate();
    for (at, ((((feature, threshold), left), right), value)) in rows {
        let place = |column: &str| format!("trees.{number}.{column}.{at}");
        if *feature < 0 {
            nodes.push(leaf(*value, combine, &place("value"))?);
            continue;
        }
        if !threshold.is_finite() {
            return Err(Refused::value(place("threshold"), threshold, "a finite number"));
        }
        let below = depth.get(at).copied().unwrap_or_default() + 1;
        if below > DEPTH_MAX {
            let expected = format!("at most {DEPTH_MAX} comparisons");
            return Err(Refused::value(place("left"), format!("comparison {below}"), expected));
        }
        for (name, child) in [("left", *left), ("right", *right)] {
            check_child(at, child, count, &place(name))?;
            if let Some(depth) = depth.get_mut(child as usize) {
                *depth = below.max(*depth);
            }
        }
        let column = column(*feature, columns, &place("feature"))?;
        let [left, right] = [*left, *right].map(|child| index(root) + child);
        nodes.push(Node { number: *threshold, left, right, column });
    }
    Ok(nodes)
}

fn check_lengths(number: usize, tree: &Columns) -> Result<(), Refused> {
    let count = tree.feature.len();
    for (column, len) in [
        ("feature", count),
        ("threshold", tree.threshold.len()),
        ("left", tree.left.len()),
        ("right", tree.right.len()),
        ("value", tree.value.len()),
    ] {
        if len != count || count == 0 {
            let expected = format!("as many as `feature`, {count}, and at least 1");
            let place = format!("trees.{number}.{column}");
            return Err(Refused::value(place, format!("{len} numbers"), expected));
        }
    }
    Ok(())
}

/// The column that a tree's feature number stands for.
fn column(feature: i32, columns: &[u32], place: &str) -> Result<u32, Refused> {
    let column = usize::try_from(feature).ok().and_then(|at| columns.get(at));
    column.copied().ok_or_else(|| {
        let expected = format!("-1, or less than the {} features", columns.len());
        Refused::value(place, feature, expected)
    })
}

fn leaf(value: f64, combine: Combine, place: &str) -> Result<Node, Refused> {
    let is_allowed = match combine {
        Combine::Mean => (0.0..=1.0).contains(&value),
        Combine::Logistic => value.is_finite(),
    };
    if !is_allowed {
        let expected = match combine {
            Combine::Mean => "a probability, 0 to 1",
            Combine::Logistic => "a finite number",
        };
        return Err(Refused::value(place, value, expected));
    }
    Ok(Node { number: value, left: 0, right: 0, column: 0 })
}

/// A child after its parent: so there are no cycles.
fn check_child(parent: usize, child: u32, count: usize, place: &str) -> Result<(), Refused> {
    if !(parent + 1..count).contains(&(child as usize)) {
        let expected = format!("a node after {parent}, below {count}");
        return Err(Refused::value(place, child, expected));
    }
    Ok(())
}

/// An index of the table, which has at most [`NODES_MAX`] nodes.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
