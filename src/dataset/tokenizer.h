#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/dataset/slices_file.h"
#include "src/dataset/tokens_file.h"
#include "src/reconstruct/step_forest.h"
#include "src/tpe/tpe.h"

namespace teller::dataset {

/// What never merges with a neighbour: nothing, the K suspects (`preserve`), or as many random
/// nodes (its control).
enum class Barriers : uint8_t { kNone = 0, kSuspects = 1, kRandom = 2 };
/// 'none', 'suspects', 'random'.
std::string_view BarriersName(Barriers barriers);
/// Throws ConfigError for another name.
Barriers ParseBarriers(std::string_view name);

/// The symbols that sequences refer to: a run's own, in its order, then one type tag a layer for
/// the published mode.
std::vector<std::string> SequenceSymbols(std::span<const std::string> run_symbols);

/// The sequences of one slice, one a track, over SequenceSymbols; barriers as marked by `barrier`
/// (by slice node; empty: none). In the published mode two atoms a node.
std::vector<tpe::Sequence> SliceSequences(const SliceStep& step, tpe::Mode mode,
                                          uint32_t run_symbols,
                                          std::span<const uint8_t> barrier = {});

/// A whole step as a slice that prunes nothing, with no suspects.
SliceStep WholeStep(const reconstruct::StepForest& forest);

/// Encodes the steps of one run with one vocabulary.
class Tokenizer {
 public:
  /// `run_symbols` is the run's table; `vocabulary` must outlive the tokenizer.
  Tokenizer(const tpe::Vocabulary& vocabulary, std::span<const std::string> run_symbols,
            Barriers barriers, uint64_t seed);

  /// Tokens of the slice with their attributes, and the counts of the whole forest; numbers,
  /// localiser columns, logs and label are left to the caller. What must hold of every encoding is
  /// checked on each: StepTokens::decodes and times_add_up.
  /// @param ranks  the run's ranks; every rank of the step is among them
  /// @throws DataError where slice and forest do not fit
  StepTokens Tokenize(const reconstruct::StepForest& forest, const SliceStep& step,
                      std::span<const RankId> ranks);

 private:
  std::vector<uint8_t> BarriersOf(const SliceStep& step) const;
  void Renumber(tpe::Sequence& sequence) const;
  void CountForest(const reconstruct::StepForest& forest, const SliceStep& step,
                   std::span<const uint8_t> barrier, StepTokens& tokens);
  /// The nodes [begin, end) of a slice that lie on one track.
  struct TrackView {
    const reconstruct::StepForest& forest;
    const SliceStep& step;
    std::size_t begin, end;
    uint16_t rank;
  };
  void AddTrack(const TrackView& track, std::span<const uint8_t> barrier, StepTokens& out);
  bool Decodes(const TrackView& track, const tpe::Sequence& sequence,
               std::span<const tpe::Token> encoded) const;
  static bool TimesAddUp(const reconstruct::StepForest& forest, const StepTokens& tokens);
  void AddNodes(const TrackView& track, StepTokens& out) const;
  /// Attributes of the track's nodes [from, to), counted from its begin; `from` exists even where
  /// the range is empty.
  static StepToken Describe(const TrackView& track, uint32_t from, uint32_t to);

  const tpe::Vocabulary& vocabulary_;
  tpe::Encoder encoder_;
  std::vector<uint32_t> number_;  // by sequence symbol: in the vocabulary, 0: unknown
  uint32_t run_symbols_;
  Barriers barriers_;
  uint64_t seed_;
};

}  // namespace teller::dataset
