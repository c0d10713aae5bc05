// Webhooks without an outbox: requests that are signed and posted by hand, in the three ways that
// receivers ask for, and how each receiver knows that they are genuine.

#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>

#include "example_folder.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/ed25519.hpp"
#include "oncebox/error.hpp"
#include "oncebox/hmac.hpp"
#include "oncebox/publish/secret.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "oncebox/webhook/public_address.hpp"
#include "oncebox/webhook/webhook_client.hpp"
#include "oncebox/webhook/webhook_signer.hpp"

namespace {

using namespace oncebox;

std::string hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<std::uint8_t>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string unhex(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

/// The receivers of this example, behind one address.
class Receivers {
 public:
  Receivers(std::string standard_secret, const std::string& hmac_secret,
            std::string_view public_key)
      : signer_({std::move(standard_secret)}),
        hmac_(hmac_secret, HmacAlgorithm::sha256),
        public_key_(public_key) {}

  [[nodiscard]] testing::Reaction answer(const testing::ReceivedRequest& request) const {
    return {.status = is_genuine(request) ? 204 : 401};
  }

 private:
  /// A receiver in earnest compares in constant time, and looks at how old the timestamp is.
  [[nodiscard]] bool is_genuine(const testing::ReceivedRequest& request) const {
    const auto& fields = request.fields;
    if (request.target == "/standard") {
      return fields.at("webhook-signature") ==
             signer_.sign(fields.at("webhook-id"), fields.at("webhook-timestamp"), request.body);
    }
    if (request.target == "/hmac") {
      return fields.at("x-signature") == "sha256=" + hex(hmac_.sign({request.body}));
    }
    return public_key_.verifies(request.body, unhex(fields.at("x-signature-ed25519")));
  }

  webhook::WebhookSigner signer_;
  HmacKey hmac_;
  Ed25519PublicKey public_key_;
};

/// Before a URL is taken from a form. Names are looked at again whenever a request goes out.
void check(const std::string& url, std::string_view address) {
  try {
    webhook::require_webhook_url(url);
    std::cout << address << (webhook::is_public_address(address) ? " is public\n" : " is not\n");
  } catch (const Error& error) {
    std::cout << to_string(error.code()) << '\n';
  }
}

}  // namespace

int main() {
  check("https://hooks.example.com/in", "93.184.215.14");
  check("https://hooks.example.com/in", "10.0.0.7");
  check("ftp://hooks.example.com/in", "");

  // Secrets stand in a file that only this program can read, or in the environment.
  const ExampleFolder folder;
  const std::string path = folder / "secret";
  std::ofstream(path) << "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n";
  const std::string secret = publish::resolve_secret("file:" + path);
  const webhook::WebhookSigner signer({secret});
  const HmacKey hmac("It's a Secret to Everybody", HmacAlgorithm::sha256);
  const Ed25519SecretKey key(std::string(32, 'k'));  // in earnest 32 random bytes

  const Receivers receivers(secret, "It's a Secret to Everybody", key.public_key());
  const testing::ScriptedServer server(
      [&](const testing::ReceivedRequest& request) { return receivers.answer(request); });

  const SystemClock clock;
  webhook::WebhookClient client;
  const std::string body = R"({"order":1})";
  const auto post = [&](const std::string& way, webhook::FieldLines fields, std::string_view sent) {
    const webhook::WebhookAnswer answer = client.post({.url = server.url() + way,
                                                       .body = sent,
                                                       .fields = std::move(fields),
                                                       .allow_private = true});
    const bool is_taken = answer.acceptance() == webhook::WebhookAcceptance::taken;
    std::cout << way << ": " << answer.status << (is_taken ? ", taken" : ", not taken") << '\n';
  };
  post("/standard", signer.fields("order-1", clock.now(), body), body);
  post("/hmac", {{"X-Signature", "sha256=" + hex(hmac.sign({body}))}}, body);
  post("/ed25519", {{"X-Signature-Ed25519", hex(key.sign(body))}}, body);
  // Somebody has changed it on the way.
  post("/ed25519", {{"X-Signature-Ed25519", hex(key.sign(body))}}, R"({"order":2})");
}
