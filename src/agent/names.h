#pragma once

#include <cstdint>
#include <cstring>

#include "src/agent/state.h"

namespace teller::agent {

/// The id of a text in this process's name table; kNameTableFull (counted) where it finds no room.
/// Texts over kMaxNameBytes are cut. Thread-safe; a lock is taken for new names only.
uint32_t InternText(const char* text, std::size_t length) noexcept;

/// Interns and fills `cached`.
uint32_t InternIntoCache(CachedName& cached, const char* text) noexcept;

/// True where the entry at `offset` of the name table is `text`. An entry is a length and bytes.
inline bool HasText(uint32_t offset, const char* text) noexcept {
  const char* entry = g_state->names + offset;
  uint32_t length;
  memcpy(&length, entry, sizeof length);
  return strncmp(entry + sizeof length, text, length) == 0 && text[length] == 0;
}

/// The id of a zero-ended text, by way of the thread's cache. NULL is the name '(null)'.
inline uint32_t NameId(Thread* thread, const char* text) noexcept {
  if (text == nullptr) text = "(null)";
  CachedName& cached =
      thread->names[(reinterpret_cast<uintptr_t>(text) * 0x9e3779b97f4a7c15ull) >> 55];
  if (cached.key == text && HasText(cached.offset, text)) return cached.id;
  return InternIntoCache(cached, text);
}
static_assert(kNameCacheSlots == 1u << (64 - 55));

/// Copies the text of a name, cut to `size` with its closing zero.
void CopyName(uint32_t id, char* text, std::size_t size) noexcept;

}  // namespace teller::agent
