// Boost.JSON is used from its headers alone; this is the one place that compiles it, for every
// module.
#include <boost/json/src.hpp>
