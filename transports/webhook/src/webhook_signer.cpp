#include "oncebox/webhook/webhook_signer.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "oncebox/error.hpp"
#include "oncebox/wire/encoding.hpp"

namespace oncebox::webhook {

namespace {

constexpr std::string_view kSymmetricPrefix = "whsec_";
constexpr std::string_view kSecretKeyPrefix = "whsk_";
constexpr std::string_view kPublicKeyPrefix = "whpk_";

/// What stands in base64 behind the prefix; nothing when it is not that, or empty.
std::optional<std::string> decoded(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  auto bytes = wire::from_base64(text.substr(prefix.size()));
  if (bytes && bytes->empty()) return std::nullopt;
  return bytes;
}

/// Throws `invalid_argument`, without quoting the secret.
Ed25519SecretKey secret_key_of(std::string_view secret) {
  const auto bytes = decoded(secret, kSecretKeyPrefix);
  if (!bytes) {
    throw Error(ErrorCode::invalid_argument,
                "secrets: one of them is not \"whsk_\" and a secret key of Ed25519 in base64");
  }
  try {
    return Ed25519SecretKey(*bytes);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("secrets: {}", error.what()));
  }
}

}  // namespace

std::string decode_standard_secret(std::string_view secret) {
  const bool has_prefix = secret.starts_with(kSymmetricPrefix);
  if (auto key = decoded(secret, has_prefix ? kSymmetricPrefix : "")) return std::move(*key);
  throw Error(ErrorCode::invalid_argument,
              "secrets: one of them is not \"whsec_\" and base64, as Standard Webhooks has them");
}

std::string decode_public_key(std::string_view key) {
  constexpr std::size_t kKeyBytes = 32;
  auto bytes = decoded(key, kPublicKeyPrefix);
  if (bytes && bytes->size() == kKeyBytes) return std::move(*bytes);
  throw Error(ErrorCode::invalid_argument,
              "secrets: one of them is not \"whpk_\" and a public key of Ed25519 in base64");
}

std::string public_key_of(std::string_view secret) {
  return fmt::format("{}{}", kPublicKeyPrefix, wire::to_base64(secret_key_of(secret).public_key()));
}

WebhookSigner::WebhookSigner(const std::vector<std::string>& secrets) {
  if (secrets.empty()) {
    throw Error(ErrorCode::invalid_argument, "secrets: there is none to sign with");
  }
  for (const std::string& secret : secrets) {
    if (secret.starts_with(kSecretKeyPrefix)) {
      keys_.emplace_back(secret_key_of(secret));
    } else {
      keys_.emplace_back(HmacKey(decode_standard_secret(secret), HmacAlgorithm::sha256));
    }
  }
}

std::string WebhookSigner::sign(std::string_view id, std::string_view timestamp,
                                std::string_view body) const {
  std::string signatures;
  for (const auto& key : keys_) {
    if (!signatures.empty()) signatures += ' ';
    if (const auto* const symmetric = std::get_if<HmacKey>(&key)) {
      signatures += "v1," + wire::to_base64(symmetric->sign({id, ".", timestamp, ".", body}));
    } else {
      // Ed25519 reads a message twice, and so wants it in one piece.
      const std::string message = fmt::format("{}.{}.{}", id, timestamp, body);
      signatures += "v1a," + wire::to_base64(std::get<Ed25519SecretKey>(key).sign(message));
    }
  }
  return signatures;
}

FieldLines WebhookSigner::fields(std::string_view id, TimePoint now, std::string_view body) const {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count();
  const std::string timestamp = std::to_string(seconds);
  return {{"webhook-id", std::string(id)},
          {"webhook-timestamp", timestamp},
          {"webhook-signature", sign(id, timestamp, body)}};
}

}  // namespace oncebox::webhook
