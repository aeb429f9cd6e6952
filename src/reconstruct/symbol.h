#pragma once

#include <string>
#include <string_view>

#include "src/trace/event.h"

namespace teller::reconstruct {

/// The operator symbol of an event's name: what models, baselines and labels call it. Names that
/// differ only in ids, template arguments or shapes become one symbol. Idempotent. Rules, in this
/// order (docs/symbols.md has the table that the tests run):
///  1. Collectives and point-to-point (layer comm): one of all_reduce, all_gather, reduce_scatter,
///  all_to_all, broadcast,
///     barrier, gather, scatter, reduce, send_recv, send, recv, whatever library and spelling.
///  2. Step ranges: 'execute_[N_]context_A(..)_generation_B(..)' is 'execute', 'step[..]' is
///  'step'.
///  3. Device items: return type, '(anonymous namespace)::', template arguments and parameters are
///  cut; copies keep their
///     direction ('Memcpy HtoD (Pageable -> Device)' is 'Memcpy HtoD').
///  4. Elsewhere a number that is not part of a word, a hexadecimal address and a word that looks
///  like an id become '#'.
///  5. Control bytes become blanks, ends are trimmed, 96 bytes are kept; an empty name is
///  '(unnamed)'.
std::string NormalizeSymbol(std::string_view name, trace::Layer layer);

/// Normalises a name that stands in truth.jsonl: `layer` as LayerName spells it, or empty.
std::string NormalizeSymbol(std::string_view name, std::string_view layer);

}  // namespace teller::reconstruct
