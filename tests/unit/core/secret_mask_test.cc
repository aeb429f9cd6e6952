#include "src/core/secret_mask.h"

#include <gtest/gtest.h>

#include <string>

namespace teller {
namespace {

TEST(SecretMaskTest, MasksValuesOfKeysThatNameASecret) {
  EXPECT_EQ(MaskSecrets("HF_TOKEN=abcdefgh1234 python serve.py"),
            "HF_TOKEN=<masked> python serve.py");
  EXPECT_EQ(MaskSecrets("vllm serve --api-key topsecret --port 80"),
            "vllm serve --api-key <masked> --port 80");
  EXPECT_EQ(MaskSecrets(R"({"password": "p w d", "user": "me"})"),
            R"({"password": "<masked>", "user": "me"})");
  EXPECT_EQ(MaskSecrets("aws_secret_access_key: wJalrXUtnFEMI/K7MDENG"),
            "aws_secret_access_key: <masked>");
}

TEST(SecretMaskTest, MasksTokensKnownByTheirForm) {
  EXPECT_EQ(MaskSecrets("using hf_abcdefghijklmnopqrstuvwx now"), "using <masked> now");
  EXPECT_EQ(MaskSecrets("key sk-proj-abcdefghijklmnop0123"), "key <masked>");
  EXPECT_EQ(MaskSecrets("id AKIAIOSFODNN7EXAMPLE"), "id <masked>");
  EXPECT_EQ(MaskSecrets("Authorization: Bearer abc.def-ghi_jkl012"),
            "Authorization: Bearer <masked>");
  EXPECT_EQ(MaskSecrets("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"), "jwt <masked>");
}

TEST(SecretMaskTest, MasksThePasswordOfAUrl) {
  EXPECT_EQ(MaskSecrets("proxy http://me:hunter2@proxy:3128/x"),
            "proxy http://me:<masked>@proxy:3128/x");
  EXPECT_EQ(MaskSecrets("GET http://127.0.0.1:8000/v1/models"),
            "GET http://127.0.0.1:8000/v1/models");
}

TEST(SecretMaskTest, LeavesWordsOfLanguageModelsAlone) {
  for (const char* line :
       {"max_tokens=32, prompt_tokens: 17, 12.5 tokens/s", "tokenizer=meta-llama/Llama-3",
        "eos_token='</s>'", "next_token: 12345678",
        "Please set a HF_TOKEN to enable higher rate limits", "secret"}) {
    EXPECT_EQ(MaskSecrets(line), line);
  }
}

TEST(SecretMaskTest, MasksAPrivateKeyOverLines) {
  SecretMasker masker;
  EXPECT_EQ(masker.Mask("-----BEGIN RSA PRIVATE KEY-----"), "<masked>");
  EXPECT_EQ(masker.Mask("MIIEpAIBAAKCAQEA7"), "<masked>");
  EXPECT_EQ(masker.Mask("-----END RSA PRIVATE KEY-----"), "<masked>");
  EXPECT_EQ(masker.Mask("step 3 done"), "step 3 done");
}

TEST(SecretMaskTest, SurvivesBytesOfAnyKind) {
  EXPECT_EQ(MaskSecrets(std::string_view("\0\xff://\x01", 6)), std::string("\0\xff://\x01", 6));
  EXPECT_EQ(MaskSecrets(""), "");
  EXPECT_EQ(MaskSecrets("password="), "password=");
}

}  // namespace
}  // namespace teller
