#pragma once

#include <string>
#include <string_view>

namespace teller {

/// What stands where a secret stood.
inline constexpr std::string_view kSecretMask = "<masked>";

/// Masks keys, tokens and passwords in one line of a log or in a command line: values of keys that
/// name a secret (HF_TOKEN=..., --api-key ..., "password": "..."), tokens known by their form
/// (hf_..., sk-..., ghp_..., AKIA..., JSON web tokens, Bearer ...), passwords inside URLs, and
/// private key blocks. Words such as max_tokens=32 or tokenizer=... are left alone.
/// Linear in the length of `line`; text without secrets comes back unchanged.
std::string MaskSecrets(std::string_view line);

/// MaskSecrets over consecutive lines: the body of a private key block spans many.
class SecretMasker {
 public:
  std::string Mask(std::string_view line);

 private:
  bool in_key_block_ = false;
};

}  // namespace teller
