// Publishes one message as a signed webhook, and prints the public key of each secret that has one.
//
//   publish_webhooks URL PAYLOAD SECRET...

#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "oncebox/webhook/webhook_publisher.hpp"
#include "oncebox/webhook/webhook_signer.hpp"

namespace {

void publish(const std::string& url, const std::string& payload,
             const std::vector<std::string>& secrets) {
  using namespace oncebox;
  webhook::WebhookPublisher publisher(
      {.endpoints = {{.url = url, .secrets = secrets, .allow_private = true}}});
  const ClaimedMessage message{
      .message = {.key = {"shop", "order.1"}, .topic = "order.paid", .payload = payload},
      .history = {},
      .owner = OwnerToken::generate()};
  HandlerContext context(message, {});
  publisher.publish(message, context);
  for (const std::string& secret : secrets) {
    if (secret.starts_with("whsk_")) std::cout << webhook::public_key_of(secret) << '\n';
  }
}

}  // namespace

int main(int count, char** arguments) {
  constexpr int kFirstSecret = 3;
  if (count <= kFirstSecret) {
    std::cerr << "usage: publish_webhooks URL PAYLOAD SECRET...\n";
    return 2;
  }
  try {
    publish(arguments[1], arguments[2], {arguments + kFirstSecret, arguments + count});
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
  return 0;
}
