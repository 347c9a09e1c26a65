"""What policies allow: pure logic, without a store."""
