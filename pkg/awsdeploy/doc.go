// Package awsdeploy builds and deletes a cluster's network on AWS: it reads the account, checks the
// quotas, carries out the plan, and reads again until nothing is left to do. It keeps no state: an
// interrupted run is continued by the next one.
package awsdeploy
