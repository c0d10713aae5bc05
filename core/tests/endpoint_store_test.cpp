// What a save keeps of an endpoint, for all stores.

#include "oncebox/endpoint_store.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"

namespace oncebox {
namespace {

const EndpointOptions kOverHttp{.may_name_secrets = false, .may_allow_private = false};

Endpoint crm(std::vector<std::string> secrets) {
  return {.name = "crm", .url = "https://crm.example/hook", .secrets = std::move(secrets)};
}

Endpoint without_secrets(Endpoint endpoint) {
  endpoint.secrets.reset();
  return endpoint;
}

TEST(EndpointAfter, SecretsThatAreLeftOutStay) {
  const Endpoint known = crm({"literal:a", "env:B"});
  Endpoint moved = without_secrets(known);
  moved.url = "https://elsewhere.example";
  EXPECT_EQ(endpoint_after({.known = known}, moved, {}).secrets, known.secrets);
  EXPECT_EQ(endpoint_after({}, moved, {}).secrets, std::vector<std::string>());
}

TEST(EndpointAfter, NamedSecretsStayWithTheirUrlForWhoMayNotNameThem) {
  const Endpoint known = crm({"literal:a", "env:B"});
  Endpoint wanted = without_secrets(known);
  wanted.topics = {"order.*"};
  EXPECT_EQ(endpoint_after({.known = known}, wanted, kOverHttp).secrets, known.secrets);
  wanted.url += "/other";
  expect_error(ErrorCode::invalid_argument,
               [&] { (void)endpoint_after({.known = known}, wanted, kOverHttp); });
  EXPECT_NO_THROW((void)endpoint_after({.known = crm({"literal:a"})}, wanted, kOverHttp));
  wanted.secrets = {"literal:own"};
  EXPECT_NO_THROW((void)endpoint_after({.known = known}, wanted, kOverHttp));
  expect_error(ErrorCode::invalid_argument,
               [&] { (void)endpoint_after({}, crm({"file:/etc/passwd"}), kOverHttp); });
  expect_error(ErrorCode::invalid_argument,
               [&] { (void)endpoint_after({.known = known}, known, kOverHttp); });
}

TEST(EndpointAfter, PrivateAddressesStayAllowedAtTheirUrlForWhoMayNotAllowThem) {
  Endpoint known = crm({});
  Endpoint wanted = known;
  wanted.allow_private = true;
  expect_error(ErrorCode::invalid_argument, [&] { (void)endpoint_after({}, wanted, kOverHttp); });
  expect_error(ErrorCode::invalid_argument,
               [&] { (void)endpoint_after({.known = known}, wanted, kOverHttp); });
  known.allow_private = true;
  EXPECT_NO_THROW((void)endpoint_after({.known = known}, wanted, kOverHttp));
  wanted.url = "http://169.254.169.254/";
  expect_error(ErrorCode::invalid_argument,
               [&] { (void)endpoint_after({.known = known}, wanted, kOverHttp); });
  EXPECT_NO_THROW((void)endpoint_after({.known = known}, wanted, {.may_name_secrets = false}));
}

TEST(EndpointAfter, ThereAreNotTooMany) {
  const EndpointsBefore full{.count = EndpointStore::kMaxEndpoints};
  expect_error(ErrorCode::overloaded, [&] { (void)endpoint_after(full, crm({}), {}); });
}

}  // namespace
}  // namespace oncebox
