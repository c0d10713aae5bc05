// Requests of strangers at a webhook's address, and templates: nothing without the secret is good.

#include <array>

#include "fuzz_input.hpp"
#include "webhooks/webhook_signature.hpp"
#include "webhooks/webhook_template.hpp"

namespace {

using namespace oncebox;
using server::HmacAlgorithm;
using server::SignatureCheck;
using server::SignatureEncoding;
using server::WebhookOptions;
using server::WebhookScheme;

// 2021-02-25T15:02:10Z, the time of the seeds.
constexpr TimePoint kNow{std::chrono::seconds{1614265330}};

WebhookOptions options(WebhookScheme scheme, const std::string& secret) {
  WebhookOptions made{.name = "fuzz", .scheme = scheme, .secrets = {secret, secret + "YWFh"}};
  if (scheme == WebhookScheme::hmac) {
    made.hmac = {.header = "X-Signature",
                 .prefix = "v=",
                 .algorithm = HmacAlgorithm::sha512,
                 .encoding = SignatureEncoding::base64};
  }
  return made;
}

/// With secrets that no input knows.
const std::array<server::WebhookSignature, 4>& signatures() {
  static const std::array<server::WebhookSignature, 4> made = {
      server::WebhookSignature(options(WebhookScheme::stripe, "whsec_unknown to inputs")),
      server::WebhookSignature(options(WebhookScheme::github, "unknown to inputs")),
      server::WebhookSignature(
          options(WebhookScheme::standard_webhooks, "whsec_dW5rbm93biB0byBpbnB1dHMu")),
      server::WebhookSignature(options(WebhookScheme::hmac, "unknown to inputs"))};
  return made;
}

server::Request read_request(fuzz::Input& input) {
  server::Request request{.method = server::Method::post, .path = "/v1/webhooks/fuzz"};
  for (const char* const field : {"Stripe-Signature", "X-Hub-Signature-256", "webhook-id",
                                  "webhook-timestamp", "webhook-signature", "X-Signature"}) {
    if (std::string value = input.line(); !value.empty()) {
      request.fields.add(field, std::move(value));
    }
  }
  return request;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::string form = input.line();
  server::Request request = read_request(input);
  request.body = input.rest();

  for (const server::WebhookSignature& signature : signatures()) {
    const SignatureCheck check = signature.check(request, kNow);
    fuzz::require(check != SignatureCheck::good && check != SignatureCheck::untimely,
                  "a stranger is refused");
  }
  fuzz::may_refuse([&] {
    const server::WebhookTemplate made(form);
    server::WebhookView view("fuzz", request);
    const auto rendered = made.render(view);
    fuzz::require(!rendered || !rendered->empty(), "a template gives a text or nothing");
    server::WebhookView again("fuzz", request);
    fuzz::require(made.render(again) == rendered, "a template gives the same again");
  });
  return 0;
}
