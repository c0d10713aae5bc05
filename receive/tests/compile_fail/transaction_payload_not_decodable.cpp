// error: the Payload of a handle in a Transaction needs oncebox::PayloadCodec::decode

#include <string>
#include <string_view>

#include "oncebox/receive/reliability_pipeline.hpp"

using namespace oncebox;

struct AcceptOrder {};

// What is sent is encoded; what comes out of an inbox is decoded.
template <>
struct oncebox::PayloadCodec<AcceptOrder> {
  static Payload encode(const AcceptOrder& order);
};

struct Declared {
  using Payload = AcceptOrder;
  void handle(const Payload& payload, Transaction& transaction);
};

void declare(Store& store) { const ReliabilityPipeline<Declared> pipeline(store); }
