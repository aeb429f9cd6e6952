#pragma once

#include "src/model/model_config.h"

namespace teller::model {

template <typename Config, typename Visitor>
void VisitShape(Config& config, Visitor&& visit) {
  visit.Integer("d_model", config.d_model, 8, 1024);
  visit.Integer("layers", config.layers, 1, 24);
  visit.Integer("heads", config.heads, 1, 32);
  visit.Integer("feed_forward", config.feed_forward, 8, 8192);
  visit.Integer("length", config.length, 1, 4096);
  visit.Integer("log_length", config.log_length, 1, 1024);
  visit.Integer("log_vocabulary", config.log_vocabulary, 16, 32768);
  visit.Number("dropout", config.dropout, 0, 0.9);
  visit.Select("selection", config.selection);
}

template <typename Config, typename Visitor>
void VisitTraining(Config& config, Visitor&& visit) {
  visit.Integer("updates", config.updates, 1, 1000000);
  visit.Integer("batch", config.batch, 2, 4096);
  visit.Integer("warmup", config.warmup, 0, 100000);
  visit.Integer("checkpoint_every", config.checkpoint_every, 1, 1000000);
  visit.Number("learning_rate", config.learning_rate, 1e-8, 10);
  visit.Number("weight_decay", config.weight_decay, 0, 10);
  visit.Number("clip", config.clip, 1e-6, 1e6);
  visit.Number("kind_weight", config.kind_weight, 0, 100);
  visit.Number("pointer_weight", config.pointer_weight, 0, 100);
  visit.Number("rank_weight", config.rank_weight, 0, 100);
}

template <typename Group, typename Visitor>
void VisitModalities(Group& group, Visitor&& visit) {
  visit.Switch("tokens", group.tokens);
  visit.Switch("numbers", group.numbers);
  visit.Switch("logs", group.logs);
  visit.Switch("localizer", group.localizer);
}

template <typename Group, typename Visitor>
void VisitAttributes(Group& group, Visitor&& visit) {
  visit.Switch("layer", group.layer);
  visit.Switch("rank", group.rank);
  visit.Switch("depth", group.depth);
  visit.Switch("parent", group.parent);
  visit.Switch("host", group.host);
  visit.Switch("device", group.device);
  visit.Switch("root", group.root);
  visit.Switch("residual", group.residual);
  visit.Switch("node_count", group.node_count);
}

/// Shows every field of a configuration with its name and range to `visit` (Integer, Number,
/// Switch, Select, Group), so that JSON, YAML and documents share one list.
template <typename Config, typename Visitor>
void VisitModelConfig(Config& config, Visitor&& visit) {
  VisitShape(config, visit);
  VisitTraining(config, visit);
  visit.Group("modalities", [&config](auto& below) { VisitModalities(config.modalities, below); });
  visit.Group("attributes", [&config](auto& below) { VisitAttributes(config.attributes, below); });
}

}  // namespace teller::model
