#include "oncebox/webhook/webhook_signer.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "oncebox/error.hpp"
#include "oncebox/wire/encoding.hpp"

namespace oncebox::webhook {

std::string decode_standard_secret(std::string_view secret) {
  constexpr std::string_view kPrefix = "whsec_";
  if (secret.starts_with(kPrefix)) secret.remove_prefix(kPrefix.size());
  const auto key = wire::from_base64(secret);
  if (!key || key->empty()) {
    throw Error(ErrorCode::invalid_argument,
                "secrets: one of them is not \"whsec_\" and base64, as Standard Webhooks has them");
  }
  return *key;
}

WebhookSigner::WebhookSigner(const std::vector<std::string>& secrets) {
  if (secrets.empty()) {
    throw Error(ErrorCode::invalid_argument, "secrets: there is none to sign with");
  }
  for (const std::string& secret : secrets) {
    keys_.emplace_back(decode_standard_secret(secret), HmacAlgorithm::sha256);
  }
}

std::string WebhookSigner::sign(std::string_view id, std::string_view timestamp,
                                std::string_view body) const {
  std::string signatures;
  for (const HmacKey& key : keys_) {
    if (!signatures.empty()) signatures += ' ';
    signatures += "v1," + wire::to_base64(key.sign({id, ".", timestamp, ".", body}));
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
