#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace teller {

/// A rank of the engine under study; -1 where a process has none.
enum class RankId : int32_t {};
inline constexpr RankId kNoRank{-1};

/// An interned string of one file or one table.
enum class StringId : uint32_t {};
inline constexpr StringId kNoString{0xffffffffu};

/// One sequence of events that nest: a thread of a process or a stream of its device.
enum class TrackId : uint32_t {};

/// A node of one step's forest: its index in StepForest::nodes.
enum class NodeId : int32_t {};
inline constexpr NodeId kNoNode{-1};

/// An operator symbol after normalisation: its index in a symbol table.
enum class SymbolId : uint32_t {};

/// The number behind an id, for use as an index.
template <typename Id>
requires std::is_enum_v<Id>
constexpr std::size_t Index(Id id) {
  return static_cast<std::size_t>(static_cast<std::underlying_type_t<Id>>(id));
}

}  // namespace teller
