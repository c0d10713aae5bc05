// Values that are sent through their codec.

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "expect_error.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/memory/transaction.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/sender.hpp"

namespace oncebox {

struct Parcel {
  int grams = 0;
};

template <>
struct PayloadCodec<Parcel> {
  static constexpr std::string_view kContentType = "application/x-parcel";
  static std::string encode(const Parcel& parcel) {
    if (parcel.grams < 0) throw std::runtime_error("less than nothing");
    return std::to_string(parcel.grams) + " g";
  }
};

namespace {

class TypedSendingTest : public ::testing::Test {
 protected:
  [[nodiscard]] static Message place(const std::string& id) {
    return {.key = {"shop", id}, .topic = "parcel", .priority = Priority(7)};
  }
  [[nodiscard]] Message stored(const std::string& id) {
    return store_.inbox().find({"shop", id})->message.value();
  }
  [[nodiscard]] Message sent(const OutboxReceipt& receipt) {
    return store_.outbox().find(MessageKey{"outbox", receipt.id})->message.value();
  }
  static void expect_parcel(const Message& message) {
    EXPECT_EQ(message.payload, Payload("500 g"));
    EXPECT_EQ(message.headers.content_type(), "application/x-parcel");
    EXPECT_EQ(message.topic, Topic("parcel"));
  }

  memory::MemoryStore store_;
  Inbox inbox_{store_};
  Outbox outbox_{store_};
  const Parcel parcel_{500};
};

TEST_F(TypedSendingTest, TheValueIsThePayloadAndTheMessageSaysTheRest) {
  EXPECT_EQ(inbox_.enqueue(parcel_, place("1")).status, EnqueueStatus::accepted);
  EXPECT_EQ(inbox_.enqueue_future(parcel_, place("2")).get().status, EnqueueStatus::accepted);
  EXPECT_EQ(inbox_.enqueue<Parcel>({500}, place("1")).status, EnqueueStatus::duplicate);
  for (const char* id : {"1", "2"}) {
    expect_parcel(stored(id));
    EXPECT_EQ(stored(id).priority, Priority(7));
  }
}

TEST_F(TypedSendingTest, AnOutboxStampsItAsAnyOther) {
  const Message cause{.key = {"shop", "cause"}, .topic = "order"};
  const OutboxReceipt receipt = outbox_.enqueue(parcel_, {.topic = "parcel"}, cause);
  expect_parcel(sent(receipt));
  EXPECT_EQ(sent(receipt).headers.causation_id(), "cause");
  EXPECT_EQ(sent(receipt).headers.message_id(), receipt.id.str());
  expect_parcel(sent(outbox_.enqueue_future(parcel_, {.topic = "parcel"}).get()));
}

TEST_F(TypedSendingTest, InATransactionItIsThereWithTheCommit) {
  memory::CallerTransaction transaction(store_);
  inbox_.enqueue(parcel_, place("1"), transaction);
  const OutboxReceipt receipt = outbox_.enqueue(parcel_, {.topic = "parcel"}, transaction);
  EXPECT_FALSE(store_.inbox().find({"shop", "1"}));
  transaction.commit();
  expect_parcel(stored("1"));
  expect_parcel(sent(receipt));
}

TEST_F(TypedSendingTest, TheSendersContentTypeStays) {
  Message message = place("1");
  message.headers.set(header_names::kContentType, "text/plain");
  inbox_.enqueue(parcel_, message);
  EXPECT_EQ(stored("1").headers.content_type(), "text/plain");
  inbox_.enqueue(std::string("as it is"), place("2"));
  EXPECT_EQ(stored("2").payload, Payload("as it is"));
  EXPECT_FALSE(stored("2").headers.content_type()) << "a string has none";
}

TEST_F(TypedSendingTest, TwoPayloadsAreRefused) {
  Message message = place("1");
  message.payload = "another";
  expect_error(ErrorCode::invalid_argument, [&] { inbox_.enqueue(parcel_, message); });
  expect_error(ErrorCode::invalid_argument,
               [&] { outbox_.enqueue(parcel_, {.topic = "parcel", .payload = "another"}); });
  EXPECT_FALSE(store_.inbox().find({"shop", "1"}));
}

TEST_F(TypedSendingTest, WhatTheCodecThrowsGoesToTheCaller) {
  EXPECT_THROW(inbox_.enqueue(Parcel{-1}, place("1")), std::runtime_error);
  EXPECT_FALSE(store_.inbox().find({"shop", "1"}));
}

TEST_F(TypedSendingTest, SeveralAreEncodedByTheCaller) {
  Message first = place("1");
  Message second = place("2");
  first.payload = encoded(parcel_);
  second.payload = encoded(Parcel{2});
  inbox_.enqueue(std::vector{first, second});
  EXPECT_EQ(stored("2").payload, Payload("2 g"));
}

TEST_F(TypedSendingTest, ASenderOfAPipelineSaysWhatItSendsToo) {
  Sender<Parcel> sender("parcel");
  sender.send(parcel_);
  sender.send(parcel_, {.headers = {{"contentType", "text/plain"}}});
  EXPECT_EQ(sender.messages().at(0).headers.content_type(), "application/x-parcel");
  EXPECT_EQ(sender.messages().at(1).headers.content_type(), "text/plain");
}

}  // namespace
}  // namespace oncebox
