#include "oncebox/ed25519.hpp"

#include <gtest/gtest.h>

#include <string>

#include "expect_error.hpp"

namespace oncebox {
namespace {

std::string bytes_of(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

// RFC 8032, 7.1, test 3.
const std::string kRfcSecret =
    bytes_of("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7");
const std::string kRfcPublic =
    bytes_of("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025");
const std::string kRfcMessage = bytes_of("af82");
const std::string kRfcSignature = bytes_of(
    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
    "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a");

TEST(Ed25519, SignsAsTheRfcDoes) {
  const Ed25519SecretKey key(kRfcSecret);
  EXPECT_EQ(key.sign(kRfcMessage), kRfcSignature);
  EXPECT_EQ(key.public_key(), kRfcPublic);
  EXPECT_EQ(Ed25519SecretKey(kRfcSecret + kRfcPublic).sign(kRfcMessage), kRfcSignature);
}

TEST(Ed25519, VerifiesThisSignatureOfThisMessageAlone) {
  const Ed25519PublicKey key(kRfcPublic);
  EXPECT_TRUE(key.verifies(kRfcMessage, kRfcSignature));
  EXPECT_FALSE(key.verifies("another", kRfcSignature));
  EXPECT_FALSE(key.verifies(kRfcMessage, kRfcSignature.substr(1)));
  EXPECT_FALSE(key.verifies(kRfcMessage, ""));
  EXPECT_FALSE(key.verifies(kRfcMessage, std::string(64, '\xff')));
  const Ed25519SecretKey other(std::string(32, 'x'));
  EXPECT_FALSE(key.verifies(kRfcMessage, other.sign(kRfcMessage)));
}

TEST(Ed25519, MessageMayBeEmpty) {
  const Ed25519SecretKey key(kRfcSecret);
  EXPECT_TRUE(Ed25519PublicKey(kRfcPublic).verifies({}, key.sign({})));
}

TEST(Ed25519, RefusesWhatIsNoKey) {
  for (const std::size_t size : {0U, 31U, 33U, 63U, 65U}) {
    const std::string bytes(size, 'x');
    expect_error(ErrorCode::invalid_argument, [&] { Ed25519SecretKey key(bytes); });
    expect_error(ErrorCode::invalid_argument, [&] { Ed25519PublicKey key(bytes); });
  }
  const std::string mixed = kRfcSecret + std::string(32, 'x');
  expect_error(ErrorCode::invalid_argument, [&] { Ed25519SecretKey key(mixed); });
}

}  // namespace
}  // namespace oncebox
